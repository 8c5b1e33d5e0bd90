"""What both kinds of answers have in common."""

import time
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from forebay.api.generation import GenerationFields, ServiceTier, Usage
from forebay.engine.request import GenerationUpdate
from forebay.replica.generation import served_tier


@dataclass(frozen=True, slots=True)
class Envelope:
    """What stands around every answer and every event of a stream. `created` is in Unix seconds."""

    id: str
    model: str
    service_tier: ServiceTier | UnsetType
    usage_so_far: UnsetType | None
    """What all events of a stream but the last say of the usage: nothing, or null where the last tells it."""
    continuous_usage: bool
    """Whether they have the usage so far instead."""
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, id_: str, model: str, asked: GenerationFields) -> "Envelope":
        so_far = None if asked.include_usage else UNSET
        return cls(id_, model, served_tier(asked) or UNSET, so_far, asked.continuous_usage)


class Tally:
    """The token counts of an answer: `num_choices`, of which each prompt has `per_prompt`.

    Where it does not `generate`, what the engine made is not counted.
    """

    def __init__(self, num_choices: int, per_prompt: int, *, generates: bool = True) -> None:
        self._last: list[GenerationUpdate | None] = [None] * num_choices
        self._per_prompt = per_prompt
        self._generates = generates

    def note(self, choice: int, update: GenerationUpdate) -> None:
        """An update's counts are totals, so the last one has them."""
        self._last[choice] = update

    def usage(self, reasoning_tokens: int | None = None) -> Usage:
        """A prompt counts once, as its first choice found it in the cache."""
        firsts = [update for update in self._last[:: self._per_prompt] if update is not None]
        made = sum(update.completion_tokens for update in self._last if update is not None)
        return Usage.of(
            prompt_tokens=sum(update.prompt_tokens for update in firsts),
            cached_tokens=sum(update.cached_tokens for update in firsts),
            completion_tokens=made if self._generates else 0,
            reasoning_tokens=reasoning_tokens,
        )
