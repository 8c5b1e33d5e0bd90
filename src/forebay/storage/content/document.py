"""One request and its answer as a JSON document that people can read."""

from datetime import UTC, datetime

import msgspec

from forebay.serving.content_log import Content


def document_of(content: Content) -> bytes:
    """`asked` and `answered` are JSON where they are JSON; the events of a stream are one text."""
    return msgspec.json.encode(
        {
            "id": content.id,
            "request_id": content.request_id,
            "tenant": content.tenant,
            "key": content.key,
            "alias": content.alias,
            "at": datetime.fromtimestamp(content.at, UTC),
            "asked": _readable(content.asked),
            "answered": _readable(b"".join(content.answered)),
        }
    )


def _readable(data: bytes) -> msgspec.Raw | str:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data.decode(errors="backslashreplace")
    return msgspec.Raw(data)
