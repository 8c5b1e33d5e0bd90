"""How one model's chats are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebay.api.chat import ChatCompletionRequest
from forebay.api.tools import Tool
from forebay.core.errors import InvalidRequest
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.conversation import described_messages, taught_messages, tools_for_template
from forebay.prompting.nesting import refusing_deep_nesting
from forebay.prompting.tool_family import HERMES, taught_family

_NOT_FOR_TEMPLATES = frozenset({
    "self", "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token",
    "eos_token", "chat_template", "tokenize", "raise_exception", "strftime_now",
})  # fmt: skip
"""Variables of a template that have fields of their own, or are the model's."""


@dataclass(frozen=True, slots=True)
class WrittenChat:
    """A chat as a template is given it: the messages, and variables such as `tools` and `reasoning_effort`."""

    messages: list[dict[str, Any]]
    variables: dict[str, Any]


class ChatWriter:
    """One for each model, made at start. `family` says how it writes calls: as its template teaches them, or in
    Hermes' form where that teaches none.
    """

    def __init__(self, model: ModelFiles) -> None:
        taught = taught_family(model)
        self._taught = taught is not None
        self.family = taught or HERMES

    def write(self, asked: ChatCompletionRequest) -> WrittenChat:
        """Raises InvalidRequest, naming the field, for what cannot be given to the template."""
        with refusing_deep_nesting():
            tools = tools_in_play(asked)
            variables = _variables(asked)
            if tools and self._taught:
                variables["tools"] = tools_for_template(tools)
            return WrittenChat(self._messages(asked, tools), variables)

    def _messages(self, asked: ChatCompletionRequest, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        if self._taught:
            return taught_messages(asked.messages, one_call_each=self.family.one_call_a_message)
        return described_messages(asked.messages, tools)


def tools_in_play(asked: ChatCompletionRequest) -> list[Tool]:
    """The tools that the model is told of."""
    return [] if asked.tool_choice == "none" else asked.tools or []


def _variables(asked: ChatCompletionRequest) -> dict[str, Any]:
    kwargs = asked.chat_template_kwargs or {}
    for name in kwargs:
        if name in _NOT_FOR_TEMPLATES:
            param = f"chat_template_kwargs.{name}"
            raise InvalidRequest(
                f"{param}: this variable is set by the server; leave it out, or use the request's own field for it.",
                param=param,
            )
    if asked.reasoning_effort is None:
        return dict(kwargs)
    thinking = {"enable_thinking": False} if asked.reasoning_effort == "none" else {}
    return {"reasoning_effort": asked.reasoning_effort, **thinking, **kwargs}
