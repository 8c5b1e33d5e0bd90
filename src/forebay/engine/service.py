"""The engine's face to asyncio."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from forebay.core.clock import Clock
from forebay.core.errors import CapacityUnavailable, ForebayError, InternalError, InvalidRequest
from forebay.engine.core import EngineCore
from forebay.engine.grammar.compiler import GrammarCompiler
from forebay.engine.grammar.matcher import CompiledGrammar
from forebay.engine.loop import Event, StepLoop
from forebay.engine.request import Ending, GenerationEnd, GenerationRequest, GenerationUpdate, GenerationWatcher
from forebay.prompting.window import output_room


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot of one engine. Totals count from its start."""

    running: int
    waiting: int
    """Never started, or preempted."""
    free_blocks: int
    cached_blocks: int
    used_blocks: int
    total_blocks: int
    preemptions_total: int
    prompt_tokens_total: int
    cached_prompt_tokens_total: int
    generation_tokens_total: int
    draft_tokens_total: int
    """Guessed tokens that were tried."""
    accepted_draft_tokens_total: int


class AsyncEngine:
    """Runs the step loop in a thread of its own; `generate` may be called by any number of tasks of one event loop."""

    def __init__(self, core: EngineCore, grammars: GrammarCompiler, clock: Clock, max_model_len: int) -> None:
        self._core = core
        self._grammars = grammars
        self._max_model_len = min(max_model_len, core.scheduler.max_sequence_tokens)
        self._loop = StepLoop(core, clock, self._deliver, self._fail)
        self._streams: dict[int, asyncio.Queue[GenerationUpdate | ForebayError]] = {}
        self._watchers: dict[int, GenerationWatcher] = {}
        self._next_key = 0
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._closed = False
        self._all_streams_ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._loop.start()

    @property
    def max_model_len(self) -> int:
        """Prompt plus output tokens that one sequence may have."""
        return self._max_model_len

    @property
    def healthy(self) -> bool:
        """False once a step has failed: the engine takes nothing more and its process should be replaced."""
        return self._failure is None

    async def generate(
        self, request: GenerationRequest, watcher: GenerationWatcher | None = None
    ) -> AsyncGenerator[GenerationUpdate, None]:
        """Run one request; closing the generator (or cancelling its task) aborts it and frees its blocks within one
        step. The `watcher` is told of it from its first step on.

        Raises, before anything is queued, ContextTooLong when prompt plus max_tokens can never fit, InvalidRequest for
        an empty prompt or a grammar that cannot be compiled, CapacityUnavailable when the engine is draining;
        InternalError when the engine broke.
        """
        key = self._next_key
        self._next_key += 1
        if watcher is not None:
            self._watchers[key] = watcher
        events: asyncio.Queue[GenerationUpdate | ForebayError] = asyncio.Queue()
        submitted = finished = False
        ending: Ending = "abort"
        try:
            self._require_running()
            max_tokens = self._admissible_max_tokens(request)
            self._open_stream(key, events)
            grammar = await self._compiled(request)
            if events.empty():
                self._loop.submit(key, request, max_tokens, grammar)
                submitted = True
            while not finished:
                event = await events.get()
                if isinstance(event, ForebayError):
                    raise event
                finished = event.finish_reason is not None
                yield event
        except ForebayError:
            ending = "error"
            raise
        finally:
            self._close_stream(key)
            if not submitted:
                self._end_watching(key, GenerationEnd(ending, 0, 0, 0))
            elif not finished:
                self._loop.abort(key)

    def _open_stream(self, key: int, events: asyncio.Queue[GenerationUpdate | ForebayError]) -> None:
        """From now on whoever drains or closes the engine knows of it."""
        self._event_loop = asyncio.get_running_loop()
        self._streams[key] = events
        self._all_streams_ended.clear()

    def _close_stream(self, key: int) -> None:
        self._streams.pop(key, None)
        if not self._streams:
            self._all_streams_ended.set()

    async def _compiled(self, request: GenerationRequest) -> CompiledGrammar | None:
        grammar = request.sampling.grammar
        return None if grammar is None else await asyncio.to_thread(self._grammars.compile, grammar)

    def _require_running(self) -> None:
        if self._failure is not None:
            raise _broken(self._failure)
        if self._draining:
            raise CapacityUnavailable("this replica is shutting down; send the request again", retry_after_s=1.0)

    def _admissible_max_tokens(self, request: GenerationRequest) -> int:
        """The request's output bound, or the error that refuses it."""
        prompt = len(request.prompt_token_ids)
        if prompt == 0:
            raise InvalidRequest("the prompt has no tokens; send at least one", param="prompt")
        last_token = self._core.runner.capacity.vocab_size - 1
        if max(request.prompt_token_ids) > last_token:
            raise InvalidRequest(f"the prompt has a token beyond the model's last, {last_token}", param="prompt")
        most = output_room(self._max_model_len, prompt, request.sampling.max_tokens)
        if request.sampling.min_tokens > most:
            raise InvalidRequest(
                f"min_tokens: {request.sampling.min_tokens} is more than may be generated, {most}; lower it",
                param="min_tokens",
            )
        return most

    def stats(self) -> EngineStats:
        """Read without stopping the step loop: the numbers may be of two neighbouring steps."""
        scheduler, totals = self._core.scheduler, self._core.totals
        counts = scheduler.pool.counts
        return EngineStats(
            running=scheduler.num_running,
            waiting=scheduler.num_waiting,
            free_blocks=counts.free,
            cached_blocks=counts.cached,
            used_blocks=counts.used,
            total_blocks=scheduler.pool.num_blocks,
            preemptions_total=scheduler.preemptions_total,
            prompt_tokens_total=totals.prompt_tokens,
            cached_prompt_tokens_total=totals.cached_prompt_tokens,
            generation_tokens_total=totals.generation_tokens,
            draft_tokens_total=totals.draft_tokens,
            accepted_draft_tokens_total=totals.accepted_draft_tokens,
        )

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new and wait until what runs has finished, `timeout_s` at most."""
        self._draining = True
        if self._streams:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._all_streams_ended.wait()

    def close(self) -> None:
        """Stop the thread and give back the memory. What still runs ends with an error. Twice is once."""
        if self._closed:
            return
        self._closed = self._draining = True
        self._loop.stop()
        self._end_streams(CapacityUnavailable("this replica has shut down; send the request again", retry_after_s=1.0))
        self._core.runner.close()
        self._grammars.close()

    # Called in the loop's thread

    def _deliver(self, events: list[tuple[int, Event]]) -> None:
        loop = self._event_loop
        assert loop is not None, "nothing can happen before the first request"
        try:
            loop.call_soon_threadsafe(self._dispatch, events)
        except RuntimeError:
            # It closed while something was being aborted, and nobody is left to be told.
            if not loop.is_closed():
                raise

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        if self._event_loop is not None:
            self._event_loop.call_soon_threadsafe(self._end_streams, _broken(error))

    # Called in the event loop's

    def _dispatch(self, events: list[tuple[int, Event]]) -> None:
        for key, event in events:
            if isinstance(event, GenerationEnd):
                self._end_watching(key, event)
                continue
            stream = self._streams.get(key)
            if stream is not None:
                stream.put_nowait(event)
            watcher = self._watchers.get(key)
            if watcher is not None and not isinstance(event, ForebayError):
                watcher.told(event)

    def _end_watching(self, key: int, end: GenerationEnd | None) -> None:
        watcher = self._watchers.pop(key, None)
        if watcher is not None:
            watcher.ended(end)

    def _end_streams(self, error: ForebayError) -> None:
        for stream in self._streams.values():
            stream.put_nowait(error)
        for key in list(self._watchers):
            self._end_watching(key, None)


def _broken(error: BaseException) -> InternalError:
    return InternalError(f"the engine failed ({type(error).__name__}); its replica is being replaced")
