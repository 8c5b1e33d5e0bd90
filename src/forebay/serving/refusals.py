"""A reservation that was refused, as the error that the caller is told."""

from collections.abc import Mapping

from forebay.core.errors import (
    BudgetExhausted,
    ConcurrencyExceeded,
    ForebayError,
    RequestRateExceeded,
    TokenRateExceeded,
)
from forebay.core.money import usd_text
from forebay.serving.rate_limit_headers import rate_limit_headers
from forebay.tenancy.reservation.lease import LimitKind, Refused

SLOT_RETRY_AFTER_S = 1.0
"""When a slot comes free cannot be known."""
KINDS: Mapping[LimitKind, type[ForebayError]] = {
    "tokens": TokenRateExceeded,
    "requests": RequestRateExceeded,
    "concurrency": ConcurrencyExceeded,
    "budget": BudgetExhausted,
}


def refusal(refused: Refused) -> ForebayError:
    """The error. It says whose limit it is, how much there is and what to do."""
    headers = rate_limit_headers(refused.requests, refused.tokens)
    quota = f"the quota {refused.account!r}"
    wait = None if refused.never else refused.retry_after_s
    if refused.limit == 0:
        return KINDS[refused.kind](
            f"Nothing may be used under {quota}: its limit is 0. Ask the operator to raise it.",
            should_retry=False,
            headers=headers,
        )
    match refused.kind:
        case "tokens":
            return TokenRateExceeded(
                f"This request may take {refused.asked} tokens (its prompt and all that it may answer); of the "
                f"{refused.limit} of {quota} {max(refused.available, 0)} are left now. {_token_advice(refused)}",
                retry_after_s=wait,
                should_retry=not refused.never,
                headers=headers,
            )
        case "requests":
            return RequestRateExceeded(
                f"The {refused.limit} requests of {quota} are used up. {_advice(refused)}",
                retry_after_s=wait,
                should_retry=not refused.never,
                headers=headers,
            )
        case "concurrency":
            return ConcurrencyExceeded(
                f"{refused.limit} requests may run at once under {quota}, and as many do. Wait for one of them to end.",
                retry_after_s=None if refused.never else SLOT_RETRY_AFTER_S,
                should_retry=not refused.never,
                headers=headers,
            )
        case "budget":
            return BudgetExhausted(
                f"This request may cost {usd_text(refused.asked)} USD; of the {usd_text(refused.limit)} USD a month "
                f"of {quota} {usd_text(max(refused.available, 0))} are left. Lower max_tokens, ask the operator to "
                "raise it, or wait for the next month.",
                should_retry=False,
                headers=headers,
            )


def _token_advice(refused: Refused) -> str:
    if refused.never:
        return "It can never be let in: shorten the prompt or lower max_tokens."
    return f"{_advice(refused)} A lower max_tokens may be let in at once."


def _advice(refused: Refused) -> str:
    if refused.never or refused.retry_after_s is None:
        return "Ask the operator to raise it."
    return f"Try again in {refused.retry_after_s:.3f} s."
