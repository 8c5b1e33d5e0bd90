"""A chat completion as the answer of `/v1/responses`."""

from typing import Any

import msgspec
from msgspec import UNSET

from forebay.api.responses import ResponsesRequest
from forebay.api.responses_answer import (
    IncompleteDetails,
    InputTokensDetails,
    ItemStatus,
    OutputCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputRefusal,
    OutputText,
    OutputTokensDetails,
    ReasoningText,
    Response,
    ResponseError,
    ResponseUsage,
)
from forebay.core.errors import ForebayError
from forebay.gateway.answer_parts import Part, parts_of
from forebay.gateway.chat_answer import ChatAnswer, ChatUsage

_ITEM_PREFIXES = {"reasoning": "rs", "text": "msg", "refusal": "msg", "call": "fc"}


class ResponseBuilder:
    """Builds the response to one request, as far as it is known. `key` is what its ids are made of; `created_at` is in
    Unix seconds, and holds where the answer's server does not say.
    """

    def __init__(self, asked: ResponsesRequest, *, key: str, created_at: int) -> None:
        self._key = key
        self.call_prefix = f"call_{key}"
        self._begun = Response(
            id=f"resp_{key}",
            created_at=created_at,
            model=asked.model,
            status="in_progress",
            output=[],
            instructions=asked.instructions,
            max_output_tokens=asked.max_output_tokens,
            max_tool_calls=asked.max_tool_calls,
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_logprobs=asked.top_logprobs or 0,
            text={"format": _format(asked)},
            tools=asked.tools or [],
            tool_choice=asked.tool_choice or "auto",
            parallel_tool_calls=True if asked.parallel_tool_calls is None else asked.parallel_tool_calls,
            reasoning={"effort": asked.reasoning.effort if asked.reasoning else None, "summary": None},
            metadata=asked.metadata or {},
            user=asked.user,
            safety_identifier=asked.safety_identifier,
            prompt_cache_key=asked.prompt_cache_key,
        )

    def born(self, answer: ChatAnswer) -> None:
        """Take over from its server when the answer was begun: whoever joins it later is told the same."""
        if isinstance(answer.created, int):
            self._begun = msgspec.structs.replace(self._begun, created_at=answer.created)

    def begun(self) -> Response:
        """The response before anything has come."""
        return self._begun

    def done(self, parts: list[Part], finish_reason: str | None, answer: ChatAnswer) -> Response:
        """The whole one; usage and tier are those of `answer`."""
        reason = incomplete_reason(finish_reason)
        return msgspec.structs.replace(
            self._begun,
            status="incomplete" if reason else "completed",
            incomplete_details=reason,
            output=[self.ended(part) for part in parts],
            usage=_usage(answer.usage) if answer.usage else None,
            service_tier=answer.service_tier or UNSET,
        )

    def whole(self, answer: ChatAnswer) -> Response:
        """The whole one, of a chat completion that has a first choice."""
        choice = answer.first
        assert choice is not None, "a whole answer was read with its choice"
        self.born(answer)
        return self.done(parts_of(choice, self.call_prefix), choice.finish_reason, answer)

    def failed(self, parts: list[Part], error: ForebayError) -> Response:
        """One that broke off."""
        return msgspec.structs.replace(
            self._begun,
            status="failed",
            error=ResponseError(code="server_error", message=error.detail),
            output=[self.ended(part) for part in parts[:-1]],
        )

    def item_id(self, part: Part) -> str:
        return f"{_ITEM_PREFIXES[part.kind]}_{self._key}_{part.position}"

    def ended(self, part: Part) -> OutputItem:
        """`part`, which has ended, as an item of the output."""
        return self.item(part, "incomplete" if part.cut else "completed")

    def item(self, part: Part, status: ItemStatus) -> OutputItem:
        """`part` as an item of the output; one that is in progress is still empty."""
        id_ = self.item_id(part)
        empty = status == "in_progress"
        match part.kind:
            case "reasoning":
                return OutputReasoning(id=id_, content=[] if empty else [ReasoningText(text=part.text)], status=status)
            case "text" | "refusal":
                return OutputMessage(id=id_, content=[] if empty else [_said(part)], status=status)
            case "call":
                arguments = "" if empty else part.text
                return OutputCall(id=id_, call_id=part.call_id, name=part.name, arguments=arguments, status=status)


def content_part(part: Part, *, whole: bool) -> OutputText | OutputRefusal | ReasoningText:
    """The one content part of a part that is no call, still empty where it is not `whole`."""
    if part.kind == "reasoning":
        return ReasoningText(text=part.text if whole else "")
    return _said(part) if whole else _said(Part(part.kind, part.position))


def _said(part: Part) -> OutputText | OutputRefusal:
    if part.kind == "refusal":
        return OutputRefusal(refusal=part.text)
    return OutputText(text=part.text, logprobs=part.logprobs)


def incomplete_reason(finish_reason: str | None) -> IncompleteDetails | None:
    """None where the model ended by itself."""
    match finish_reason:
        case "length":
            return IncompleteDetails(reason="max_output_tokens")
        case "content_filter":
            return IncompleteDetails(reason="content_filter")
        case _:
            return None


def _format(asked: ResponsesRequest) -> dict[str, Any]:
    wanted = asked.format
    if wanted.type != "json_schema":
        return {"type": wanted.type}
    return {
        "type": wanted.type,
        "name": wanted.name,
        "description": wanted.description,
        "schema": wanted.schema,
        "strict": True,
    }


def _usage(usage: ChatUsage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )
