"""An assistant's turn, put together from its parts as chat completions want it: one message."""

from collections.abc import Iterator

from forebay.api.chat import ChatMessage
from forebay.api.tools import ToolCall


class AssistantTurn:
    """Thoughts, then texts, then calls."""

    def __init__(self) -> None:
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []

    def ends_before(self, kind: str) -> bool:
        """Whether a part of this `kind` (`reasoning`, `function_call`, else a text) belongs to a turn of its own."""
        if kind == "function_call":
            return False
        return bool(self._texts or self._calls)

    def think(self, text: str) -> None:
        if text:
            self._thoughts.append(text)

    def say(self, text: str) -> None:
        self._texts.append(text)

    def call(self, call: ToolCall) -> None:
        self._calls.append(call)

    def take(self) -> Iterator[ChatMessage]:
        """The turn, if there is one; what comes next belongs to another."""
        if self._thoughts or self._texts or self._calls:
            yield ChatMessage(
                role="assistant",
                content=None if self._calls and not self._texts else "\n".join(self._texts),
                reasoning_content="\n".join(self._thoughts) or None,
                tool_calls=self._calls or None,
            )
        self._thoughts, self._texts, self._calls = [], [], []
