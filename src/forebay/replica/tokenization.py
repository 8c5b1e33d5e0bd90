"""`POST /tokenize` and `POST /detokenize`."""

from typing import Any

from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from forebay.api.tokenization import DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse
from forebay.replica.auth import Guard
from forebay.replica.service import ReplicaService
from forebay.web.body import read_json
from forebay.web.responses import json_response


def tokenization_routes(service: ReplicaService, guards: list[Guard]) -> list[HTTPRouteHandler]:
    """Both routes."""

    @post("/tokenize", guards=guards)
    async def tokenize(request: Request[Any, Any, Any]) -> ASGIApp:
        asked = await read_json(request, TokenizeRequest, service.settings.body_limits)
        if asked.model is not None:
            service.require_model(asked.model)
        tokens = await _tokens(service, asked)
        strings = await service.prompts.token_texts(tokens) if asked.return_token_strs else None
        return json_response(
            TokenizeResponse(count=len(tokens), max_model_len=service.max_model_len, tokens=tokens, token_strs=strings)
        )

    @post("/detokenize", guards=guards)
    async def detokenize(request: Request[Any, Any, Any]) -> ASGIApp:
        asked = await read_json(request, DetokenizeRequest, service.settings.body_limits)
        if asked.model is not None:
            service.require_model(asked.model)
        tokens = service.prompts.of_token_ids(asked.tokens, "tokens")
        return json_response(DetokenizeResponse(prompt=await service.prompts.text_of(tokens)))

    return [tokenize, detokenize]


async def _tokens(service: ReplicaService, asked: TokenizeRequest) -> list[int]:
    if asked.messages is not None:
        return await service.prompts.of_chat(
            asked.messages,
            add_generation_prompt=asked.add_generation_prompt is not False,
            add_special_tokens=bool(asked.add_special_tokens),
            must_fit=False,
        )
    return await service.prompts.of_text(
        asked.prompt or "", add_special_tokens=asked.add_special_tokens is not False, must_fit=False
    )
