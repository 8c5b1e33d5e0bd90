"""A request to `/v1/messages` as a chat completion."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from forebay.api import messages as wire
from forebay.api.chat import ChatCompletionRequest, ChatMessage, ReasoningEffort
from forebay.api.generation import StreamOptions
from forebay.api.structured import JsonSchemaFormat, ResponseFormat
from forebay.api.tools import (
    FunctionCall,
    FunctionDefinition,
    FunctionReference,
    NamedToolChoice,
    Tool,
    ToolCall,
    ToolChoice,
)
from forebay.core.errors import InvalidRequest
from forebay.gateway.assistant_turn import AssistantTurn

ERROR_PREFIX = "Error: "
"""Before the result of a tool that failed: chat completions have no other way to say so."""
_CHOICES: dict[str, Literal["auto", "required", "none"]] = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(asked: wire.MessagesRequest, *, own_pool: bool) -> ChatCompletionRequest:
    """The chat completion that answers `asked`. Its usage is always asked for.

    `own_pool`: whether its pool is known to understand the template variable that turns thinking on and off.
    """
    prefilled = asked.is_prefilled
    return ChatCompletionRequest(
        model=asked.model,
        messages=list(_messages(asked)),
        stream=asked.stream,
        stream_options=StreamOptions(include_usage=True) if asked.stream else None,
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=asked.top_k or None,
        stop=asked.stop_sequences or None,
        tools=[_tool(tool) for tool in asked.tools] if asked.tools else None,
        tool_choice=_tool_choice(asked),
        parallel_tool_calls=_parallel(asked),
        response_format=_response_format(asked),
        reasoning_effort=_effort(asked),
        continue_final_message=True if prefilled else None,
        add_generation_prompt=False if prefilled else None,
        chat_template_kwargs=_template_variables(asked) if own_pool else None,
        user=asked.metadata.user_id if asked.metadata else None,
    )


def require_no_extensions(asked: wire.MessagesRequest) -> None:
    """Raise InvalidRequest where `asked` needs one of vLLM's extensions of chat completions."""
    unknown = "the server behind this model is not known to do this (its pool has no `engine` that does)"
    if asked.is_prefilled:
        field = f"messages[{len(asked.messages) - 1}]"
        raise InvalidRequest(
            f"{field}: an assistant's turn at the end is continued, and {unknown}; end with a user's turn.", param=field
        )
    if asked.top_k:
        raise InvalidRequest(f"top_k: {unknown}; leave it out.", param="top_k")


def _messages(asked: wire.MessagesRequest) -> Iterator[ChatMessage]:
    if asked.system:
        yield ChatMessage(role="system", content=_text(asked.system))
    turn = AssistantTurn()
    for message in asked.messages:
        if message.role == "assistant":
            for block in _blocks(message.content):
                _add(turn, block)
            continue
        yield from turn.take()
        if message.role == "system":
            yield ChatMessage(role="system", content=_text(message.content))
        else:
            yield from _user_messages(message)
    yield from turn.take()


def _user_messages(message: wire.Message) -> Iterator[ChatMessage]:
    """The results of tools are messages of their own, and come before what the user says."""
    blocks = _blocks(message.content)
    for block in blocks:
        if block.type == "tool_result":
            content = block.content if isinstance(block.content, str | list) else ""
            text = (ERROR_PREFIX if block.is_error else "") + _text(content)
            yield ChatMessage(role="tool", content=text, tool_call_id=block.tool_use_id)
    texts = [block for block in blocks if block.type == "text"]
    if texts or not blocks:
        yield ChatMessage(role="user", content=_text(texts))


def _add(turn: AssistantTurn, block: wire.Block) -> None:
    match block.type:
        case "thinking":
            turn.think(block.thinking or "")
        case "tool_use":
            arguments = msgspec.json.encode(block.input).decode()
            turn.call(ToolCall(id=block.id or "", function=FunctionCall(name=block.name or "", arguments=arguments)))
        case "text":
            turn.say(block.text or "")
        case _:
            # A redacted thought says nothing to any model here.
            pass


def _blocks(content: str | list[wire.Block]) -> list[wire.Block]:
    return [wire.Block(type="text", text=content)] if isinstance(content, str) else content


def _text(content: str | list[wire.Block]) -> str:
    """The text of all blocks, joined by line ends."""
    return "\n".join(block.text or "" for block in _blocks(content))


def _tool(tool: wire.Tool) -> Tool:
    function = FunctionDefinition(
        name=tool.name, description=tool.description, parameters=tool.input_schema, strict=tool.strict
    )
    return Tool(type="function", function=function)


def _tool_choice(asked: wire.MessagesRequest) -> ToolChoice | None:
    choice = asked.tool_choice
    if choice is None or not asked.tools:
        return None
    if choice.type == "tool":
        return NamedToolChoice(type="function", function=FunctionReference(name=choice.name or ""))
    return _CHOICES[choice.type]


def _parallel(asked: wire.MessagesRequest) -> bool | None:
    if asked.tool_choice is None or not asked.tools or asked.tool_choice.disable_parallel_tool_use is None:
        return None
    return not asked.tool_choice.disable_parallel_tool_use


def _response_format(asked: wire.MessagesRequest) -> ResponseFormat | None:
    wanted = asked.format
    if wanted is None:
        return None
    schema = JsonSchemaFormat(name="answer", schema=wanted.schema, strict=True)
    return ResponseFormat(type="json_schema", json_schema=schema)


def _effort(asked: wire.MessagesRequest) -> ReasoningEffort | None:
    effort = asked.output_config.effort if asked.output_config else None
    return "xhigh" if effort == "max" else effort


def _template_variables(asked: wire.MessagesRequest) -> dict[str, Any] | None:
    if asked.thinking is None:
        return None
    return {"enable_thinking": asked.thinking.type != "disabled"}
