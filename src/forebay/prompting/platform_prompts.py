"""Registered platform prompts, found at the beginning of a prompt.

What counts as public is a beginning of the tokens that a registered prompt alone is written as: by that nothing that a
tenant has written can be in it. And it counts only where the registered text is there whole, so that nobody can find a
prompt out piece by piece by what the prefix cache has of it.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from forebay.core.errors import ForebayError
from forebay.modelfiles.tokenizer import ModelTokenizer
from forebay.prompting.counting import Route
from forebay.prompting.offloading import run_sized
from forebay.prompting.prompts import Prompt

REMEMBERED = 1024
"""Platform prompts whose tokens are kept."""


@dataclass(frozen=True, slots=True)
class WrittenPlatformPrompt:
    """A platform prompt as it is written alone; the first `needed` of its tokens have all of its text."""

    token_ids: list[int]
    needed: int

    def common(self, token_ids: list[int]) -> int:
        """How many of the first of `token_ids` are its own; 0 where those have not all of its text."""
        if token_ids[: self.needed] != self.token_ids[: self.needed]:
            return 0
        pairs = zip(self.token_ids[self.needed :], token_ids[self.needed :], strict=False)
        return self.needed + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, slots=True)
class Form:
    """How a prompt is written: the same text comes out otherwise as a chat's or a completion's, or at another time."""

    route: Route
    add_special_tokens: bool
    epoch: object


Write = Callable[[str, Form], Prompt]
"""A platform prompt alone, as a form has it. Raises where the model takes no such prompt."""


class PlatformPrompts:
    """One model's, as `write` writes them. What was written is remembered."""

    def __init__(self, tokenizer: ModelTokenizer, write: Write) -> None:
        self._tokenizer = tokenizer
        self._write = write
        self._remembered: OrderedDict[tuple[str, Form], WrittenPlatformPrompt | None] = OrderedDict()

    async def longest(self, token_ids: list[int], registered: Sequence[str], form: Form) -> int:
        """How many of the first of a prompt's `token_ids` are one of the `registered` platform prompts."""
        found = 0
        for text in registered:
            written = await self._written(text, form)
            if written is not None:
                found = max(found, written.common(token_ids))
        return found

    async def _written(self, text: str, form: Form) -> WrittenPlatformPrompt | None:
        key = (text, form)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        written = await run_sized(lambda: self._write_alone(text, form), len(text))
        self._remembered[key] = written
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return written

    def _write_alone(self, registered: str, form: Form) -> WrittenPlatformPrompt | None:
        """None where nobody's prompt can begin with it."""
        said = registered.strip()
        if not said:
            return None
        try:
            alone = self._write(registered, form)
        # The model takes no such prompt, or it is longer than the window.
        except ForebayError:
            return None
        # Where the text comes again in what the template writes after it, more is asked for than must be.
        at = alone.text.rfind(said)
        needed = None if at < 0 else self._tokens_of(alone.text[: at + len(said)], alone.token_ids)
        return None if needed is None else WrittenPlatformPrompt(alone.token_ids, needed)

    def _tokens_of(self, text: str, token_ids: list[int]) -> int | None:
        """How many of the first of `token_ids` it takes to say `text`; None where all of them do not say it."""

        def says(count: int) -> bool:
            return self._tokenizer.decode(token_ids[:count], skip_special_tokens=False).startswith(text)

        if not says(len(token_ids)):
            return None
        return bisect_left(range(len(token_ids)), True, key=says)
