"""Whether what was billed is what the engines say they did."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forebay.metering.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Drift:
    """What the engine counted and what was billed of one pool or request, `name`; None where one side does not know it.

    `flagged` says that they are further apart than is tolerated.
    """

    name: str
    engine: TokenUsage | None
    billed: TokenUsage | None
    flagged: bool

    @property
    def prompt_tokens(self) -> int:
        """How many more were billed than counted."""
        return _or_none(self.billed).prompt_tokens - _or_none(self.engine).prompt_tokens

    @property
    def output_tokens(self) -> int:
        return _or_none(self.billed).output_tokens - _or_none(self.engine).output_tokens


def reconcile(
    engine: Mapping[str, TokenUsage], billed: Mapping[str, TokenUsage], *, tolerance: float = 0.0
) -> list[Drift]:
    """Compare by name; a row for each that either side knows, in the order of names.

    `tolerance` is the share of the engine's count by which prompt or output tokens may differ (0.001 is a thousandth).
    What only one side knows is flagged if it has tokens at all.
    """
    rows: list[Drift] = []
    for name in sorted(engine.keys() | billed.keys()):
        counted, charged = engine.get(name), billed.get(name)
        apart = any(
            abs(ours - theirs) > tolerance * theirs
            for ours, theirs in zip(_compared(charged), _compared(counted), strict=True)
        )
        rows.append(Drift(name, counted, charged, apart))
    return rows


def summed(usages: Iterable[tuple[str, TokenUsage]]) -> dict[str, TokenUsage]:
    """The tokens of each name: of requests, told by their pool."""
    sums: dict[str, TokenUsage] = {}
    for name, tokens in usages:
        before = _or_none(sums.get(name))
        sums[name] = TokenUsage(
            prompt_tokens=before.prompt_tokens + tokens.prompt_tokens,
            cached_tokens=before.cached_tokens + tokens.cached_tokens,
            output_tokens=before.output_tokens + tokens.output_tokens,
        )
    return sums


_NONE = TokenUsage(prompt_tokens=0, cached_tokens=0, output_tokens=0)


def _or_none(tokens: TokenUsage | None) -> TokenUsage:
    return tokens or _NONE


def _compared(tokens: TokenUsage | None) -> tuple[int, int, int]:
    known = _or_none(tokens)
    return known.prompt_tokens, known.cached_tokens, known.output_tokens
