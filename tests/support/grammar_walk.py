"""Random walks through a grammar with a real tokenizer, as a model that knows nothing would take them."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.grammar.matcher import CompiledGrammar, GrammarMatcher
from forebay.modelfiles.tokenizer import ModelTokenizer


class Walker:
    """Draws tokens that the mask allows; the longer a text, the likelier tokens that bring it to its end."""

    def __init__(self, tokenizer: ModelTokenizer, eos_token_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        texts = [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]
        self._closing = np.array([text[:1] in b'"}]' and text[:1] != b"" for text in texts])
        self._plain = np.array([text.isascii() and text.isalnum() for text in texts])
        self._closing[sorted(eos_token_ids)] = True

    def walk(self, grammar: CompiledGrammar, seed: int, most_tokens: int = 300) -> bytes | None:
        """The bytes of a finished text; None where it did not end within `most_tokens`."""
        rng = np.random.default_rng(seed)
        matcher = grammar.matcher()
        tokens: list[int] = []
        while not matcher.stopped and len(tokens) < most_tokens:
            matcher.begin()
            token = self.draw(allowed(matcher), rng, len(tokens))
            matcher.accept(token)
            tokens.append(token)
        return self.bytes_of(tokens) if matcher.stopped else None

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.tokenizer.token_bytes(token) for token in tokens if token not in self.eos_token_ids)

    def draw(self, choices: np.ndarray, rng: np.random.Generator, length: int) -> int:
        assert choices.size, "nothing may follow, and yet the text is not complete"
        for preferred, share in ((self._closing, min(0.1 + length / 100, 0.95)), (self._plain, 0.5)):
            if rng.random() < share:
                found = choices[preferred[choices]]
                if found.size:
                    return int(rng.choice(found))
        return int(rng.choice(choices))


def allowed(matcher: GrammarMatcher) -> np.ndarray:
    """The ids of the tokens that may follow."""
    mask = matcher.mask(10.0)
    assert mask is not None
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def follows(grammar: CompiledGrammar, tokens: Sequence[int]) -> bool:
    """Whether the mask allows each of `tokens` in turn."""
    matcher = grammar.matcher()
    for token in tokens:
        if token not in allowed(matcher):
            return False
        matcher.accept(token)
    return True


def matches(grammar: CompiledGrammar, walker: Walker, text: str) -> bool:
    """Whether `text` is a whole text of the grammar, cut into tokens as the tokenizer does."""
    tokens = walker.tokenizer.encode(text, add_special_tokens=False)
    return all(follows(grammar, [*tokens, end]) for end in walker.eos_token_ids)
