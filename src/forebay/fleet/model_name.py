"""Puts the name that the caller asked for in the place of the replica's own."""

import msgspec

from forebay.api import sse
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


class StreamRenamer:
    """The same for the events of one stream, as the network cuts them."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._parser = sse.SseParser()

    def feed(self, chunk: bytes) -> bytes:
        """The whole events that `chunk` completes, renamed. Raises UpstreamFailed."""
        return b"".join(self._event(event) for event in self._parser.feed(chunk))

    def _event(self, event: sse.SseEvent) -> bytes:
        if event.is_done:
            return sse.DONE
        return sse.event(renamed(event.data, self._alias))
