"""Puts the name that the caller asked for in the place of the replica's own."""

import msgspec

from forebay.core.errors import UpstreamFailed

_Fields = dict[str, msgspec.Raw]
_fields = msgspec.json.Decoder(_Fields)


def renamed(answer: bytes, alias: str) -> bytes:
    """The JSON object `answer` with `alias` as its `model`; every other field keeps its bytes.

    Raises UpstreamFailed where it is not a JSON object.
    """
    try:
        # The decoder does not look at the bytes of fields that it does not need.
        str(answer, "utf-8")
        fields = _fields.decode(answer)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        raise UpstreamFailed("The model's server answered with something other than a JSON object.") from None
    if "model" in fields:
        fields["model"] = msgspec.Raw(msgspec.json.encode(alias))
    return msgspec.json.encode(fields)
