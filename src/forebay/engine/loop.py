"""The thread that steps an engine."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from forebay.core.clock import Clock
from forebay.core.errors import ForebayError
from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation
from forebay.engine.grammar.matcher import CompiledGrammar
from forebay.engine.request import GenerationEnd, GenerationRequest, GenerationUpdate

Event = GenerationUpdate | ForebayError | GenerationEnd
Deliver = Callable[[list[tuple[int, Event]]], None]
"""Takes the updates of one step, each with the key of its generation; an error is a generation's last. After the last
comes what it has come to. Called in the loop's thread; must not block."""
Fail = Callable[[BaseException], None]
"""Takes what broke the loop, which has ended. Called in its thread."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Submit:
    key: int
    request: GenerationRequest
    max_tokens: int
    grammar: CompiledGrammar | None


@dataclass(frozen=True, slots=True)
class _Abort:
    key: int


class _Stop:
    """Leave the loop."""


class StepLoop:
    """Owns an `EngineCore` in a thread. Others may only send it commands, which it takes between two steps."""

    def __init__(self, core: EngineCore, clock: Clock, deliver: Deliver, fail: Fail) -> None:
        self._core = core
        self._clock = clock
        self._deliver = deliver
        self._fail = fail
        self._commands: queue.SimpleQueue[_Submit | _Abort | _Stop] = queue.SimpleQueue()
        self._generations: dict[int, Generation] = {}
        self._keys: dict[Generation, int] = {}
        self._thread = threading.Thread(target=self._run, name="engine-step-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, key: int, request: GenerationRequest, max_tokens: int, grammar: CompiledGrammar | None) -> None:
        self._commands.put(_Submit(key, request, max_tokens, grammar))

    def abort(self, key: int) -> None:
        self._commands.put(_Abort(key))

    def stop(self) -> None:
        """Ends the thread after the step in flight; returns when it has ended."""
        self._commands.put(_Stop())
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_commands():
                self._step()
        # Also what is no Exception, as libraries raise it that were written in other languages: nobody would be told.
        except BaseException as error:
            logger.exception("engine_step_failed")
            self._fail(error)

    def _take_commands(self) -> bool:
        """Carry out what has been asked; waits while there is nothing to run. False: stop."""
        while self._core.idle or not self._commands.empty():
            command = self._commands.get()
            match command:
                case _Submit():
                    now = self._clock.now()
                    generation = self._core.add(command.request, command.max_tokens, now, command.grammar)
                    self._generations[command.key] = generation
                    self._keys[generation] = command.key
                case _Abort():
                    if command.key in self._generations:
                        generation = self._generations[command.key]
                        self._deliver([(command.key, generation.end)])
                        self._forget(generation)
                case _Stop():
                    return False
        return True

    def _step(self) -> None:
        events: list[tuple[int, Event]] = []
        for generation, update in self._core.step(self._clock.now()):
            events.append((self._keys[generation], update))
            if generation.ended:
                events.append((self._keys[generation], generation.end))
                self._forget(generation)
        if events:
            self._deliver(events)

    def _forget(self, generation: Generation) -> None:
        self._core.remove(generation)
        del self._generations[self._keys.pop(generation)]
