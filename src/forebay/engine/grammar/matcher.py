"""One generation's place in its grammar."""

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import Final

from llguidance import LLMatcher

from forebay.engine.grammar.vocabulary import Mask, Vocabulary

QUICK_S: Final = 150e-6
"""After a mask that took longer, a generation's next one is computed in the pool, while the model runs. Most take 10 to
50 µs, and handing one over costs the step's thread as much: those are computed where they are asked for.
"""
SLOW_S: Final = 2e-3
"""After a mask that took longer, every mask of the grammar is computed in the pool, so that it stalls a step once."""


MOST_SAID: Final = 500
"""Characters of the library's message; some quote the whole source."""
NOTHING_FOLLOWS: Final = "nothing can follow"
_UNNAMED: Final = ("", "NoExtensionBias")
"""How the library says that."""


class GrammarError(Exception):
    """The grammar library gave up in mid-text, mostly because a limit was reached; says so in a sentence."""


class CompiledGrammar:
    """A grammar ready to use, for any number of generations. Safe to use from several threads."""

    def __init__(self, template: LLMatcher, vocabulary: Vocabulary, executor: Callable[[], Executor]) -> None:
        """`template` stands at the grammar's start and is never moved. Raises GrammarError where nothing can follow."""
        self._template = template
        self._vocabulary = vocabulary
        self.executor = executor
        self._first, took = _timed_mask(vocabulary, template)
        self.slow = took > 10 * SLOW_S
        """Whether all masks go to the pool; the first one builds much that the later ones use."""
        if template.is_error():
            said = reason(template)
            raise GrammarError("no text matches it" if said == NOTHING_FOLLOWS else said)
        self._first.flags.writeable = False

    def matcher(self) -> "GrammarMatcher":
        """A fresh one, for one generation."""
        return GrammarMatcher(self, self._template.deep_copy(), self._vocabulary, self._first)


class GrammarMatcher:
    """Used by one thread, but for the mask that `begin` may have put into the pool."""

    def __init__(self, grammar: CompiledGrammar, matcher: LLMatcher, vocabulary: Vocabulary, first: Mask) -> None:
        self._grammar = grammar
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._mask: Mask | None = first
        self._pending: Future[tuple[Mask, float]] | None = None
        self._took = 0.0
        self._accepted = 0
        self._stopped = False
        self._complete = matcher.is_accepting()

    @property
    def complete(self) -> bool:
        """The text may end here; also while a mask is being computed."""
        return self._complete

    @property
    def stopped(self) -> bool:
        """Nothing can follow: the text is complete."""
        return self._stopped

    def begin(self) -> None:
        """Start on the next token's mask, so that it is computed while the model runs; a quick one is ready at once."""
        if self._mask is not None or self._pending is not None:
            return
        if self._grammar.slow or self._took > QUICK_S:
            self._pending = self._grammar.executor().submit(_timed_mask, self._vocabulary, self._matcher)
        else:
            self._keep(*_timed_mask(self._vocabulary, self._matcher))

    def mask(self, timeout_s: float) -> Mask | None:
        """The next token's mask, not to be written to; None where it is not ready within `timeout_s`. Bits beyond the
        tokenizer are 0. Raises GrammarError.
        """
        self.begin()
        if self._pending is not None:
            if not wait_for([self._pending], timeout_s).done:
                return None
            self._keep(*self._pending.result())
            self._pending = None
        self._check()
        return self._mask

    def accept(self, token_id: int) -> None:
        """Go on by a token that the mask allowed; raises GrammarError for another one."""
        assert self._pending is None, "the mask must be taken before a token is"
        self._matcher.consume_token(token_id)
        self._check()
        self._accepted += 1
        self._mask = None
        self._stopped = self._matcher.is_stopped()
        self._complete = self._matcher.is_accepting()

    def forced(self) -> list[int]:
        """The tokens that must follow in any case, if any; each is still to be accepted. None of them is an end token.
        Empty while a mask is being computed.
        """
        return self._vocabulary.forced(self._matcher) if self._pending is None and not self._stopped else []

    def _keep(self, mask: Mask, took: float) -> None:
        self._mask, self._took = mask, took
        if took > SLOW_S:
            self._grammar.slow = True

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarError(
                f"the grammar could not be followed after {self._accepted} tokens: {reason(self._matcher)}"
            )


def _timed_mask(vocabulary: Vocabulary, matcher: LLMatcher) -> tuple[Mask, float]:
    """The mask, and how long it took by the thread's own clock: that others ran meanwhile says nothing about it."""
    start = time.thread_time()
    return vocabulary.mask(matcher), time.thread_time() - start


def reason(matcher: LLMatcher) -> str:
    """What the library says is wrong, without the dump of its state that may follow."""
    said = matcher.get_error().partition("<state>")[0].partition("<non-verbose/>")[0].strip()
    if said in _UNNAMED:
        return NOTHING_FOLLOWS
    return said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]} ..."
