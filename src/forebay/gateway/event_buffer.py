"""Between a pool's stream and its translation: what was made before something went wrong is not lost."""

from collections.abc import Callable, Iterator

from forebay.api.sse import SseEvent, SseParser


class EventBuffer:
    """Cuts a stream into events, and keeps what `translate` makes of them until it is told."""

    def __init__(self, translate: Callable[[SseEvent], Iterator[bytes]]) -> None:
        self._translate = translate
        self._parser = SseParser()
        self._made: list[bytes] = []
        self.begun = False
        """Whether anything was made."""

    def feed(self, chunk: bytes) -> bytes:
        """What `chunk` makes. Raises what `translate` does; what was made until then is the `rest`."""
        for event in self._parser.feed(chunk):
            for told in self._translate(event):
                self._made.append(told)
                self.begun = True
        return self.rest()

    def rest(self) -> bytes:
        """What was made and not yet told."""
        told, self._made = b"".join(self._made), []
        return told
