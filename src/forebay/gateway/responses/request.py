"""A request to `/v1/responses` as a chat completion."""

from collections.abc import Iterator

from forebay.api.chat import ChatCompletionRequest, ChatMessage
from forebay.api.generation import StreamOptions
from forebay.api.responses import ContentPart, FunctionChoice, FunctionTool, InputItem, ResponsesRequest
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
from forebay.gateway.assistant_turn import AssistantTurn


def chat_request(asked: ResponsesRequest) -> ChatCompletionRequest:
    """The chat completion that answers `asked`. Its usage is always asked for."""
    return ChatCompletionRequest(
        model=asked.model,
        messages=list(_messages(asked)),
        stream=asked.stream,
        stream_options=StreamOptions(include_usage=True) if asked.stream else None,
        max_tokens=asked.max_output_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        logprobs=True if asked.wants_logprobs else None,
        top_logprobs=asked.top_logprobs or None,
        response_format=_response_format(asked),
        tools=[_tool(tool) for tool in asked.tools] if asked.tools else None,
        tool_choice=_tool_choice(asked),
        parallel_tool_calls=asked.parallel_tool_calls if asked.tools else None,
        reasoning_effort=asked.reasoning.effort if asked.reasoning else None,
        service_tier=asked.service_tier,
        user=asked.user,
    )


def _messages(asked: ResponsesRequest) -> Iterator[ChatMessage]:
    if asked.instructions:
        yield ChatMessage(role="system", content=asked.instructions)
    if isinstance(asked.input, str):
        yield ChatMessage(role="user", content=asked.input)
        return
    turn = AssistantTurn()
    for item in asked.input:
        if _is_assistant_s(item):
            if turn.ends_before(item.type):
                yield from turn.take()
            _add(turn, item)
        else:
            yield from turn.take()
            yield _message(item)
    yield from turn.take()


def _is_assistant_s(item: InputItem) -> bool:
    return item.type in {"reasoning", "function_call"} or item.role == "assistant"


def _add(turn: AssistantTurn, item: InputItem) -> None:
    match item.type:
        case "reasoning":
            turn.think(text_of(item.content))
        case "function_call":
            function = FunctionCall(name=item.name or "", arguments=item.arguments or "")
            turn.call(ToolCall(id=item.call_id or "", function=function))
        case _:
            turn.say(text_of(item.content))


def _message(item: InputItem) -> ChatMessage:
    """`developer` is called by its older name, which every server knows."""
    if item.type == "function_call_output":
        output = item.output if isinstance(item.output, str | list) else None
        return ChatMessage(role="tool", content=text_of(output), tool_call_id=item.call_id)
    role = "user" if item.role == "user" else "system"
    return ChatMessage(role=role, content=text_of(item.content))


def text_of(content: str | list[ContentPart] | None) -> str:
    """The text of all parts, joined by line ends."""
    if isinstance(content, list):
        return "\n".join(part.words for part in content)
    return content or ""


def _response_format(asked: ResponsesRequest) -> ResponseFormat | None:
    wanted = asked.format
    match wanted.type:
        case "text":
            return None
        case "json_object":
            return ResponseFormat(type="json_object")
        case "json_schema":
            schema = JsonSchemaFormat(
                name=wanted.name or "", description=wanted.description, schema=wanted.schema, strict=wanted.strict
            )
            return ResponseFormat(type="json_schema", json_schema=schema)


def _tool(tool: FunctionTool) -> Tool:
    function = FunctionDefinition(
        name=tool.name or "", description=tool.description, parameters=tool.parameters, strict=tool.strict
    )
    return Tool(type="function", function=function)


def _tool_choice(asked: ResponsesRequest) -> ToolChoice | None:
    choice = asked.tool_choice
    if not asked.tools:
        return None
    if isinstance(choice, FunctionChoice):
        return NamedToolChoice(type="function", function=FunctionReference(name=choice.name or ""))
    return choice
