"""How a caller stands with its quotas, in the headers that OpenAI's clients know."""

from forebay.tenancy.reservation.lease import Standing


def rate_limit_headers(requests: Standing | None, tokens: Standing | None) -> dict[str, str]:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, those that are limited."""
    found: dict[str, str] = {}
    for name, standing in (("requests", requests), ("tokens", tokens)):
        if standing is not None:
            found[f"x-ratelimit-limit-{name}"] = str(standing.limit)
            found[f"x-ratelimit-remaining-{name}"] = str(standing.remaining)
            found[f"x-ratelimit-reset-{name}"] = duration(standing.reset_s)
    return found


def duration(seconds: float) -> str:
    """As OpenAI writes it: `0s`, `17ms`, `1.5s`, `6m0s`, `1h0m5s`; never less than it is."""
    milliseconds = -int(-seconds * 1000 // 1)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
