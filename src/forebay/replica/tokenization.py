"""`POST /tokenize` and `POST /detokenize`."""

from typing import Any

from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from forebay.api.chat import ChatCompletionRequest, ChatMessage
from forebay.api.tokenization import DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse
from forebay.prompting.prompts import Rendering
from forebay.replica.auth import Guard
from forebay.replica.service import ReplicaService
from forebay.web.body import read_noted_json
from forebay.web.responses import json_response


def tokenization_routes(service: ReplicaService, guards: list[Guard]) -> list[HTTPRouteHandler]:
    """Both routes."""

    @post("/tokenize", guards=guards)
    async def tokenize(request: Request[Any, Any, Any]) -> ASGIApp:
        noted = await read_noted_json(request, TokenizeRequest, service.settings.body_limits)
        asked = noted.value
        if asked.model is not None:
            service.require_model(asked.model)
        tokens = await _tokens(service, asked, noted.size)
        strings = await service.prompts.token_texts(tokens) if asked.return_token_strs else None
        answer = TokenizeResponse(
            count=len(tokens), max_model_len=service.max_model_len, tokens=tokens, token_strs=strings
        )
        return json_response(answer, headers=noted.headers)

    @post("/detokenize", guards=guards)
    async def detokenize(request: Request[Any, Any, Any]) -> ASGIApp:
        noted = await read_noted_json(request, DetokenizeRequest, service.settings.body_limits)
        if noted.value.model is not None:
            service.require_model(noted.value.model)
        tokens = service.prompts.of_token_ids(noted.value.tokens, "tokens")
        text = await service.prompts.text_of(tokens)
        return json_response(DetokenizeResponse(prompt=text), headers=noted.headers)

    return [tokenize, detokenize]


async def _tokens(service: ReplicaService, asked: TokenizeRequest, request_bytes: int) -> list[int]:
    if asked.messages is not None:
        return await _chat_tokens(service, asked, asked.messages, request_bytes)
    return await service.prompts.of_text(
        asked.prompt or "", add_special_tokens=asked.add_special_tokens is not False, must_fit=False
    )


async def _chat_tokens(
    service: ReplicaService, asked: TokenizeRequest, messages: list[ChatMessage], request_bytes: int
) -> list[int]:
    chat = ChatCompletionRequest(
        model=service.model_name,
        messages=messages,
        tools=asked.tools,
        chat_template_kwargs=asked.chat_template_kwargs,
    )
    rendering = Rendering(
        add_generation_prompt=asked.add_generation_prompt is not False,
        continue_final_message=bool(asked.continue_final_message),
        add_special_tokens=bool(asked.add_special_tokens),
    )
    plan = service.dialect.plan(chat)
    prompt = await service.prompts.of_chat(plan.chat, rendering, request_bytes=request_bytes, must_fit=False)
    return prompt.token_ids
