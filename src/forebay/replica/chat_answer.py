"""A chat's answer on its way out, whole or as a stream."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from msgspec import UNSET

from forebay.api import sse
from forebay.api.chat import (
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChunkChoice,
    Delta,
)
from forebay.api.generation import Usage
from forebay.engine.request import GenerationUpdate, TokenLogprob
from forebay.prompting.offloading import run_sized
from forebay.replica.answer import Envelope, Tally
from forebay.replica.choices import ChoiceUpdates
from forebay.replica.dialects.pieces import OutputParser, Piece
from forebay.replica.logprobs import chat_logprobs, prompt_logprobs
from forebay.replica.spoken import SpokenChoice, delta_of
from forebay.replica.vocabulary import Vocabulary

_BEGINNING = Delta(role="assistant")
_NOTHING = Delta()
_NO_TEXT = Delta(content="")


class ChatAnswer:
    """The choices of one request; there is one parser for each. Where its model `reasons`, the usage says how much.
    With `only_calls` there is no content.
    """

    def __init__(
        self,
        envelope: Envelope,
        asked: ChatCompletionRequest,
        parsers: Sequence[OutputParser],
        vocabulary: Vocabulary,
        *,
        reasons: bool,
        only_calls: bool,
    ) -> None:
        self._envelope = envelope
        self._asked = asked
        self._vocabulary = vocabulary
        self._reasons = reasons
        self._choices = [SpokenChoice(parser, only_calls=only_calls) for parser in parsers]
        self._tally = Tally(len(parsers), len(parsers))

    async def whole(self, updates: ChoiceUpdates) -> ChatCompletion:
        """All of it. Closes `updates`."""
        pieces: list[list[Piece]] = [[] for _ in self._choices]
        logprobs: list[list[TokenLogprob]] = [[] for _ in self._choices]
        last: dict[int, GenerationUpdate] = {}
        of_prompt: Sequence[TokenLogprob] = ()
        async with aclosing(updates):
            async for index, update in updates:
                self._tally.note(index, update)
                pieces[index] += self._choices[index].pieces(update)
                logprobs[index] += update.logprobs
                of_prompt = of_prompt or update.prompt_logprobs
                last[index] = update
        num_told = self._asked.prompt_logprobs

        def completion() -> ChatCompletion:
            return ChatCompletion(
                id=self._envelope.id,
                created=self._envelope.created,
                model=self._envelope.model,
                service_tier=self._envelope.service_tier,
                choices=[self._choice(index, pieces[index], logprobs[index], last[index]) for index in sorted(last)],
                usage=self._usage(),
                prompt_logprobs=UNSET if num_told is None else prompt_logprobs(of_prompt, num_told, self._vocabulary),
            )

        named = sum(len(each) for each in logprobs) * (1 + (self._asked.top_logprobs or 0))
        return await run_sized(completion, named + len(of_prompt) * (1 + (num_told or 0)))

    def _choice(
        self, index: int, pieces: Sequence[Piece], logprobs: Sequence[TokenLogprob], last: GenerationUpdate
    ) -> ChatChoice:
        reason = self._choices[index].finish_reason(last)
        assert reason is not None, "the last update of a generation has a reason"
        return ChatChoice(
            index=index,
            message=self._choices[index].message(pieces),
            finish_reason=reason,
            stop_reason=last.stop_reason,
            logprobs=chat_logprobs(logprobs, self._vocabulary) if self._asked.logprobs else None,
        )

    async def events(self, updates: ChoiceUpdates) -> AsyncGenerator[bytes, None]:
        """All of it as server-sent events. Closes `updates`."""
        async with aclosing(updates):
            async for index, update in updates:
                self._tally.note(index, update)
                if event := self._events_of(index, update):
                    yield event
        ending = b"" if self._envelope.usage_so_far is not None else self._event([], self._usage())
        yield ending + sse.DONE

    def _events_of(self, index: int, update: GenerationUpdate) -> bytes:
        """What one update adds to its choice."""
        choice = self._choices[index]
        events = b""
        if not choice.begun:
            choice.begun = True
            beginning = Delta(role="assistant", content="") if choice.is_plain else _BEGINNING
            events = self._chunk(ChunkChoice(index=index, delta=beginning))
        if choice.is_plain and not update.logprobs:
            if update.text:
                events += self._chunk(ChunkChoice(index=index, delta=Delta(content=update.text)))
        else:
            events += self._pieces_of(index, update)
        if update.finish_reason is not None:
            events += self._chunk(self._ending_of(index, update))
        return events

    def _ending_of(self, index: int, update: GenerationUpdate) -> ChunkChoice:
        choice = self._choices[index]
        return ChunkChoice(
            index=index,
            delta=_NO_TEXT if choice.has_empty_content and not choice.is_plain else _NOTHING,
            finish_reason=choice.finish_reason(update),
            stop_reason=update.stop_reason,
        )

    def _pieces_of(self, index: int, update: GenerationUpdate) -> bytes:
        """What it says; the log-probabilities of its tokens go out with the first of it."""
        deltas = [delta_of(piece) for piece in self._choices[index].pieces(update)]
        logprobs = chat_logprobs(update.logprobs, self._vocabulary) if update.logprobs else None
        if logprobs is not None and not deltas:
            # Whether there will be any content is not known yet, where not all is.
            deltas = [_NO_TEXT if self._choices[index].is_plain else _NOTHING]
        events = b""
        for delta in deltas:
            events += self._chunk(ChunkChoice(index=index, delta=delta, logprobs=logprobs))
            logprobs = None
        return events

    def _usage(self) -> Usage:
        reasoning = sum(choice.reasoning_tokens for choice in self._choices) if self._reasons else None
        return self._tally.usage(reasoning)

    def _chunk(self, choice: ChunkChoice) -> bytes:
        envelope = self._envelope
        return self._event([choice], self._usage() if envelope.continuous_usage else envelope.usage_so_far)

    def _event(self, choices: list[ChunkChoice], usage: Usage | msgspec.UnsetType | None) -> bytes:
        envelope = self._envelope
        chunk = ChatCompletionChunk(
            id=envelope.id,
            created=envelope.created,
            model=envelope.model,
            choices=choices,
            usage=usage,
            service_tier=envelope.service_tier,
        )
        return sse.event(msgspec.json.encode(chunk))
