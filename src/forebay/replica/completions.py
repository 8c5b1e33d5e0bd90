"""`POST /v1/completions`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from forebay.api import sse
from forebay.api.completions import Completion, CompletionChoice, CompletionRequest
from forebay.api.generation import Usage
from forebay.core.ids import new_id
from forebay.engine.request import SamplingParams
from forebay.prompting.offloading import run_sized
from forebay.prompting.prompts import Prompt
from forebay.replica.accounting import booked
from forebay.replica.answer import Envelope, Tally
from forebay.replica.auth import Guard
from forebay.replica.choices import ChoiceUpdates
from forebay.replica.continuation import AskedPrompt, Continuation
from forebay.replica.generation import generation_requests, public_prefix_tokens, sampling_params, within_window
from forebay.replica.request_usage import RequestUsage
from forebay.replica.service import ReplicaService
from forebay.replica.structured import output_grammar
from forebay.replica.vocabulary import Vocabulary
from forebay.web.body import read_noted_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.responses import json_response


def completion_route(service: ReplicaService, guards: list[Guard]) -> HTTPRouteHandler:
    """The route."""

    async def respond(request: Request[Any, Any, Any], usage: RequestUsage) -> ASGIApp:
        arrived = service.clock.now()
        noted = await read_noted_json(request, CompletionRequest, service.settings.body_limits)
        asked = noted.value
        service.require_model(asked.model)
        public = public_prefix_tokens(request.headers, service.settings)
        sampling = _sampling(asked, service.vocabulary)
        prompts = await service.prompts.of_completion(asked, echoed=bool(asked.echo))
        envelope = Envelope.of(new_id("cmpl"), service.model_name, asked)
        tokens = [prompt.token_ids for prompt in prompts]
        requests = generation_requests(envelope.id, asked, tokens, sampling, public)
        if asked.max_tokens is None:
            window, limit = service.max_model_len, asked.output_limit
            requests = [[within_window(each, limit, window) for each in group] for group in requests]
        usage.expect(len(prompts) * asked.num_choices, counts_output=asked.output_limit > 0)
        updates = service.generate_all(requests, arrived, usage)
        answer = _CompletionAnswer(envelope, asked, prompts, service.vocabulary)
        if asked.stream:
            return EventStream(answer.events(updates), headers=lambda: noted.headers)
        whole = await until_disconnect(request.receive, answer.whole(updates))
        return json_response(whole, headers=noted.headers)

    @post("/v1/completions", guards=guards)
    async def completions(request: Request[Any, Any, Any]) -> ASGIApp:
        return await booked(service.usage_book, request, respond)

    return completions


def _sampling(asked: CompletionRequest, vocabulary: Vocabulary) -> SamplingParams:
    params = sampling_params(asked, asked.output_limit, vocabulary)
    of_prompt = [asked.prompt_logprobs, asked.logprobs if asked.echo else None]
    return replace(
        params,
        # The engine generates at least one token; where none was asked for, it is left out of the answer.
        max_tokens=max(asked.output_limit, 1),
        logprobs=asked.logprobs,
        prompt_logprobs=max((each for each in of_prompt if each is not None), default=None),
        grammar=output_grammar(asked),
    )


class _CompletionAnswer:
    """One answer on its way out."""

    def __init__(
        self, envelope: Envelope, asked: CompletionRequest, prompts: Sequence[Prompt], vocabulary: Vocabulary
    ) -> None:
        self._envelope = envelope
        self._num_top = asked.prompt_logprobs
        n = asked.num_choices
        asked_prompts = [AskedPrompt(prompt) for prompt in prompts]
        self._choices = [
            Continuation(index, asked_prompts[index // n], asked, vocabulary) for index in range(len(prompts) * n)
        ]
        self._tally = Tally(len(self._choices), n, generates=asked.output_limit > 0)

    async def whole(self, updates: ChoiceUpdates) -> Completion:
        async with aclosing(updates):
            async for index, update in updates:
                self._tally.note(index, update)
                self._choices[index].gather(update)
        usage = self._tally.usage()
        named = usage.prompt_tokens * (1 + self._num_top) * len(self._choices) if self._num_top is not None else 0
        choices = await run_sized(lambda: [choice.whole() for choice in self._choices], named)
        return self._completion(choices, usage)

    async def events(self, updates: ChoiceUpdates) -> AsyncGenerator[bytes, None]:
        usage_so_far, continuous = self._envelope.usage_so_far, self._envelope.continuous_usage
        async with aclosing(updates):
            async for index, update in updates:
                self._tally.note(index, update)
                part = self._choices[index].part(update)
                if part is not None:
                    yield self._event([part], self._tally.usage() if continuous else usage_so_far)
        ending = b"" if usage_so_far is not None else self._event([], self._tally.usage())
        yield ending + sse.DONE

    def _event(self, choices: list[CompletionChoice], usage: Usage | msgspec.UnsetType | None) -> bytes:
        return sse.event(msgspec.json.encode(self._completion(choices, usage)))

    def _completion(self, choices: list[CompletionChoice], usage: Usage | msgspec.UnsetType | None) -> Completion:
        envelope = self._envelope
        return Completion(
            id=envelope.id,
            created=envelope.created,
            model=envelope.model,
            choices=choices,
            usage=usage,
            service_tier=envelope.service_tier,
        )
