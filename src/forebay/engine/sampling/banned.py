"""Tokens that a generation may not draw next, whatever their logits."""

from collections.abc import Sequence

from forebay.engine.request import SamplingParams


def banned_tokens(params: SamplingParams, generated: Sequence[int], end_token_ids: frozenset[int]) -> list[int]:
    """What may not be drawn after the `generated` tokens, each id once.

    That is every end and stop token while fewer than `min_tokens` were generated, and the last token of each bad word
    whose other tokens were just generated.
    """
    banned: set[int] = set()
    if len(generated) < params.min_tokens:
        banned |= end_token_ids | params.stop_token_ids
    if params.bad_words:
        longest = max(len(word) for word in params.bad_words)
        recent = tuple(generated[max(len(generated) - longest, 0) :])
        banned.update(word[-1] for word in params.bad_words if word and _ends_with(recent, word[:-1]))
    return sorted(banned)


def _ends_with(tokens: tuple[int, ...], end: tuple[int, ...]) -> bool:
    return len(tokens) >= len(end) and tokens[len(tokens) - len(end) :] == end
