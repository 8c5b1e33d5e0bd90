"""What has come of calls and cannot be told yet."""

from dataclasses import dataclass, field

from forebay.core.errors import UpstreamFailed
from forebay.gateway.chat_answer import Call


@dataclass(slots=True)
class PendingCall:
    """A call that has no name yet, or that waits until the one before it is whole."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def add(self, call: Call) -> None:
        self.call_id = self.call_id or call.id or ""
        if call.function:
            self.name = self.name or call.function.name or ""
            self.arguments.append(call.function.arguments or "")

    def take(self) -> str:
        """The arguments that are not told yet."""
        told, self.arguments = "".join(self.arguments), []
        return told


class PendingCalls:
    """The calls of one answer that are not over. They are told one after the other, whatever the order of their pieces;
    the first of them may be `open`: its beginning was told.
    """

    def __init__(self) -> None:
        self._calls: dict[int, PendingCall] = {}
        self._over: set[int] = set()
        self._latest: PendingCall | None = None
        self.open: PendingCall | None = None

    def add(self, call: Call, position: int | None = None) -> None:
        """`position` in a whole answer; None in a chunk. Raises UpstreamFailed where it belongs to one that is over."""
        index = self._index(call) if position is None else position
        if index in self._over:
            raise UpstreamFailed("The model's server mixed up the parts of two tool calls. Send the request again.")
        self._latest = self._calls.setdefault(index, PendingCall(index))
        self._latest.add(call)

    def next(self, *, skip_nameless: bool) -> PendingCall | None:
        """The one behind the open one; None where that has no name yet."""
        waiting = [call for _, call in sorted(self._calls.items()) if call is not self.open]
        if skip_nameless:
            waiting = [call for call in waiting if call.name]
        return waiting[0] if waiting and waiting[0].name else None

    def close(self) -> None:
        """The open one is over."""
        if self.open is not None:
            self._over.add(self.open.index)
            del self._calls[self.open.index]
            self.open = None

    @property
    def waiting(self) -> bool:
        """Whether another waits behind the open one."""
        return len(self._calls) > (self.open is not None)

    def _index(self, call: Call) -> int:
        """Some servers give a chunk's calls no number; there each new id is the next call."""
        if call.index is not None:
            return call.index
        if self._latest is None:
            return 0
        return self._latest.index + bool(call.id and call.id != self._latest.call_id)
