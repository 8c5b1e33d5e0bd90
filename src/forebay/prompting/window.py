"""A model's context window, and what has room in it."""

from forebay.core.errors import ContextTooLong


def output_room(window: int, prompt_tokens: int, max_tokens: int | None) -> int:
    """Most tokens that may be generated after `prompt_tokens`: `max_tokens`, or all that the `window` leaves.

    Raises ContextTooLong where those are too many, or nothing is left.
    """
    room = window - prompt_tokens
    if room < 1 or (max_tokens is not None and max_tokens > room):
        asked = f"{prompt_tokens} prompt tokens" + (f" and max_tokens {max_tokens}" if max_tokens is not None else "")
        raise ContextTooLong(
            f"the context window is {window} tokens, but {asked} were asked for; "
            "shorten the prompt or lower max_tokens",
            param="max_tokens" if max_tokens is not None and room >= 1 else None,
        )
    return room if max_tokens is None else max_tokens
