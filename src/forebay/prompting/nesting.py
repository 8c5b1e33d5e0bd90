"""JSON that is nested deeper than Python can follow."""

from collections.abc import Generator
from contextlib import contextmanager

from forebay.core.errors import InvalidRequest


@contextmanager
def refusing_deep_nesting() -> Generator[None]:
    """Raises InvalidRequest instead of RecursionError."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest(
            "tools, response_format or messages are nested too deeply; flatten their schemas and arguments."
        ) from None
