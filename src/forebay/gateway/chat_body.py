"""The body of a chat completion that another request was translated to."""

from collections.abc import Callable

import msgspec

from forebay.api.chat import ChatCompletionRequest
from forebay.api.decoding import FieldError, bounded
from forebay.core.errors import InvalidRequest


def chat_body(translate: Callable[[], ChatCompletionRequest]) -> bytes:
    """The JSON object of what `translate` makes. Raises InvalidRequest where that cannot be asked."""
    try:
        return msgspec.json.encode(translate())
    except FieldError as error:
        raise InvalidRequest(bounded(f"{error.field}: {error}"), param=error.field) from None
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply; flatten it.") from None
