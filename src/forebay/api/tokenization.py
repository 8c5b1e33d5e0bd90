"""`POST /tokenize` and `POST /detokenize`, as vLLM has them."""

from typing import Any

import msgspec

from forebay.api.chat import Messages, check_continuing
from forebay.api.decoding import FieldError
from forebay.api.generation import TokenId
from forebay.api.tools import Tools, check_tool_choice


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text, or the messages of a chat, to be cut into tokens.

    `add_special_tokens` None is true for a prompt, false for messages (the chat template writes its own). `tools`,
    `continue_final_message` and `chat_template_kwargs` are for messages, as in a chat.
    """

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_generation_prompt: bool | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    tools: Tools | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.prompt is None) == (self.messages is None):
            raise FieldError("prompt", "send either `prompt` or `messages`.")
        check_tool_choice(self.tools, None)
        if self.continue_final_message and self.messages:
            check_continuing(self.messages, self.add_generation_prompt)


class TokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens, and the texts of each where they were asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Token ids to be made text."""

    tokens: list[TokenId]
    model: str | None = None


class DetokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The text."""

    prompt: str
