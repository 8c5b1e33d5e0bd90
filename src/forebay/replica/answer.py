"""What both kinds of answers do with a generation's updates."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from forebay.api.generation import FinishReason, Usage
from forebay.core.errors import InternalError
from forebay.engine.request import GenerationUpdate


async def collect(updates: AsyncGenerator[GenerationUpdate, None]) -> tuple[str, GenerationUpdate, FinishReason]:
    """The whole text, the last update and why it is the last."""
    texts: list[str] = []
    async with aclosing(updates):
        async for update in updates:
            texts.append(update.text)
            if update.finish_reason is not None:
                return "".join(texts), update, update.finish_reason
    raise InternalError("The engine ended this generation without saying why; send the request again.")


def usage_of(update: GenerationUpdate) -> Usage:
    """The token counts that an update carries."""
    return Usage.of(
        prompt_tokens=update.prompt_tokens,
        cached_tokens=update.cached_tokens,
        completion_tokens=update.completion_tokens,
    )
