"""`POST /v1/chat/completions`."""

from dataclasses import replace
from typing import Any

from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from forebay.api.chat import ChatCompletionRequest
from forebay.core.ids import new_id
from forebay.engine.request import SamplingParams
from forebay.prompting.prompts import Prompt, Rendering
from forebay.replica.accounting import booked
from forebay.replica.answer import Envelope
from forebay.replica.auth import Guard
from forebay.replica.chat_answer import ChatAnswer
from forebay.replica.dialects.dialect import ChatPlan
from forebay.replica.generation import generation_requests, public_prefix_tokens, sampling_params
from forebay.replica.request_usage import RequestUsage
from forebay.replica.service import ReplicaService
from forebay.replica.vocabulary import Vocabulary
from forebay.web.body import read_noted_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.responses import json_response


def chat_route(service: ReplicaService, guards: list[Guard]) -> HTTPRouteHandler:
    """The route."""

    async def respond(request: Request[Any, Any, Any], usage: RequestUsage) -> ASGIApp:
        arrived = service.clock.now()
        noted = await read_noted_json(request, ChatCompletionRequest, service.settings.body_limits)
        asked = noted.value
        service.require_model(asked.model)
        public = public_prefix_tokens(request.headers, service.settings)
        plan = service.dialect.plan(asked)
        prompt = await service.prompts.of_chat(plan.chat, Rendering.of(asked), request_bytes=noted.size)
        sampling = _sampling(asked, plan, prompt, service.vocabulary)
        envelope = Envelope.of(new_id("chatcmpl"), service.model_name, asked)
        requests = generation_requests(envelope.id, asked, [prompt.token_ids], sampling, public)
        usage.expect(asked.num_choices)
        updates = service.generate_all(requests, arrived, usage)
        parsers = [plan.parser(prompt.text) for _ in range(asked.num_choices)]
        answer = ChatAnswer(
            envelope,
            asked,
            parsers,
            service.vocabulary,
            reasons=plan.marks is not None,
            only_calls=plan.only_calls,
        )
        if asked.stream:
            return EventStream(answer.events(updates), headers=lambda: noted.headers)
        whole = await until_disconnect(request.receive, answer.whole(updates))
        return json_response(whole, headers=noted.headers)

    @post("/v1/chat/completions", guards=guards)
    async def chat_completions(request: Request[Any, Any, Any]) -> ASGIApp:
        return await booked(service.usage_book, request, respond)

    return chat_completions


def _sampling(asked: ChatCompletionRequest, plan: ChatPlan, prompt: Prompt, vocabulary: Vocabulary) -> SamplingParams:
    params = sampling_params(asked, asked.output_limit, vocabulary)
    return replace(
        params,
        logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        # They would cut through the calls, at a brace or in a name.
        stop=() if plan.only_calls else params.stop,
        grammar=plan.grammar_for(prompt.text),
        skip_special_tokens=params.skip_special_tokens and plan.skip_special_tokens,
    )
