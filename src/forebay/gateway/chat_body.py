"""The body of a chat completion that another request was translated to."""

from collections.abc import Callable

import msgspec

from forebay.api.chat import ChatCompletionRequest
from forebay.api.decoding import FieldError, bounded
from forebay.core.errors import InvalidRequest
from forebay.gateway.field_names import FieldNames


def chat_body(translate: Callable[[], ChatCompletionRequest], names: FieldNames) -> bytes:
    """The JSON object of what `translate` makes. Raises InvalidRequest, by the `names` of the request as it came, where
    that cannot be asked.
    """
    try:
        return msgspec.json.encode(translate())
    except FieldError as error:
        param = names.of(error.field)
        raise InvalidRequest(bounded(f"{param}: {error}"), param=param) from None
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply; flatten it.") from None
