"""How many tokens a request's prompts are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Route = Literal["chat/completions", "completions"]
"""The path below `/v1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCount:
    """What a request's prompts come to: `tokens` of all `prompts` together.

    The first `public_prefix_tokens` are a registered platform prompt and what the chat template writes around it; 0
    with several prompts. What is not `exact` is an estimate, too high rather than too low.
    """

    tokens: int
    prompts: int
    public_prefix_tokens: int
    exact: bool


class PromptCounter(Protocol):
    """Counts for one pool."""

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        """`body` is a JSON object; `platform_prompts` are the texts that operators have registered for its model.

        Raises InvalidRequest and ContextTooLong for what a replica would refuse, too.
        """
        ...
