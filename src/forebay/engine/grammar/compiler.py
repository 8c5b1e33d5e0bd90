"""Grammars compiled once.

Kinds (`engine.request.Grammar`): JSON objects and JSON schemas (see `json_schema`), regular expressions (Rust's syntax
without look-around; the whole text must match), choices, and llguidance's Lark dialect or GBNF.

JSON is written in one way: `{"a": 1, "b": [2, 3]}`, properties in the schema's order, with escapes such as `\\n` but
none of the form `\\u0041`. That also holds for JSON schemas inside a Lark grammar, which are checked as others are:

    start: "<tool_call>\\n" call "\\n</tool_call>"
    call: %json {"type": "object", "properties": {"name": {"const": "f"}}, "required": ["name"]}

What stands in Lark for a token of its own (which is how an added token, special or not, is drawn) is `<|name|>` where
the token is written so, `<name>` likewise, or `<[17]>` by its id. A string such as `"<tool_call>"` only ever stands for
ordinary tokens, even where the tokenizer has an added token of that text. An end token of the model in a grammar ends
the text there. Where the grammar is complete, all end tokens are allowed, without being written. A token in a grammar
cannot be part of an upper-case (terminal) rule.

What a grammar may cost is bounded: by what `json_schema` and `lark` refuse, and for the rest by the library's limits.
"""

from collections import OrderedDict
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Lock
from typing import Final

from llguidance import LLMatcher, LLParserLimits

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.faults import explained
from forebay.engine.grammar.matcher import CompiledGrammar, GrammarError
from forebay.engine.grammar.sources import library_source
from forebay.engine.grammar.vocabulary import Vocabulary
from forebay.engine.request import Grammar
from forebay.modelfiles.tokenizer import ModelTokenizer

MOST_GRAMMARS: Final = 256
MOST_CHARS: Final = 4 * 1024 * 1024
"""Of all cached sources together."""
_POOL_THREADS: Final = 2

_Key = tuple[str, str]
_Outcome = CompiledGrammar | str
"""A grammar, or what is wrong with its source."""


class GrammarCompiler:
    """Compiles what a text must match, once for each grammar. Safe to use from several threads.

    The first grammar takes longer (see `Vocabulary`): a replica whose clients never ask for one does not pay for it.
    """

    def __init__(self, tokenizer: ModelTokenizer, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        """`vocab_size` is the width of the model's logits."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._vocabulary: Vocabulary | None = None
        self._vocabulary_lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = Lock()
        self._cache: OrderedDict[_Key, Future[_Outcome]] = OrderedDict()
        self._cached_chars = 0

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Raises InvalidRequest where the grammar is wrong, cannot be enforced or is too large; says where and why."""
        key = (grammar.kind, grammar.source)
        with self._lock:
            outcome = self._cache.get(key)
            mine = outcome is None
            if outcome is None:
                outcome = Future[_Outcome]()
                self._remember(key, outcome)
            else:
                self._cache.move_to_end(key)
        if mine:
            self._settle(key, outcome, grammar)
        found = outcome.result()
        if isinstance(found, str):
            raise InvalidRequest(found, param=grammar.param)
        return found

    def close(self) -> None:
        """End the pool; masks that are being computed there end first."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _settle(self, key: _Key, outcome: Future[_Outcome], grammar: Grammar) -> None:
        try:
            outcome.set_result(self._outcome(grammar))
        except BaseException as error:
            # Not the grammar's fault: whoever waits for it must not wait for ever, and the next one tries again.
            with self._lock:
                if self._cache.pop(key, None) is not None:
                    self._cached_chars -= len(key[1])
            outcome.set_exception(error)

    def _outcome(self, grammar: Grammar) -> _Outcome:
        try:
            source = library_source(grammar)
            vocabulary = self._open_vocabulary()
            template = LLMatcher(vocabulary.library, source, log_level=0, limits=_limits())
            if template.is_error():
                return explained(grammar, template, vocabulary, _limits())
            return CompiledGrammar(template, vocabulary, self._executor)
        except InvalidRequest as error:
            return error.detail
        except GrammarError as error:
            return f"the grammar cannot be used: {error}"

    def _open_vocabulary(self) -> Vocabulary:
        with self._vocabulary_lock:
            if self._vocabulary is None:
                self._vocabulary = Vocabulary(self._tokenizer, self._vocab_size, self._eos_token_ids)
            return self._vocabulary

    def _executor(self) -> Executor:
        with self._lock:
            if self._closed:
                raise GrammarError("the engine is closing")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="grammar")
            return self._pool

    def _remember(self, key: _Key, outcome: Future[_Outcome]) -> None:
        self._cache[key] = outcome
        self._cached_chars += len(key[1])
        while len(self._cache) > MOST_GRAMMARS or (self._cached_chars > MOST_CHARS and len(self._cache) > 1):
            (_, dropped), _ = self._cache.popitem(last=False)
            self._cached_chars -= len(dropped)


def _limits() -> LLParserLimits:
    """A mask takes a tenth of a second at most, a matcher about 60 MB; errors are for clients, so without state."""
    return LLParserLimits(
        max_items_in_row=5_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_lexer_states=30_000,
        initial_lexer_fuel=1_000_000,
        max_grammar_size=200_000,
        verbose_errors=False,
    )
