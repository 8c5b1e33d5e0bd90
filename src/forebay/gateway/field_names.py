"""A chat completion's field names in the errors of requests that were translated to one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.core.errors import ContextTooLong, ForebayError, InvalidRequest


@dataclass(frozen=True, slots=True)
class FieldName:
    """A path of a chat completion, as a regular expression, and what it is called in the request."""

    chat: str
    asked: str


class FieldNames:
    """The paths of one API; the first that fits counts. `limit` is what `max_tokens` is called there."""

    def __init__(self, names: Sequence[FieldName], *, limit: str = "max_tokens") -> None:
        self._names = [(re.compile(name.chat + r"(?![a-z_])"), name.asked) for name in names]
        self._limit = limit

    def of(self, path: str) -> str:
        """The beginning of `path` by its other name, be it followed by more text or not."""
        for chat, asked in self._names:
            if found := chat.match(path):
                return found.expand(asked) + path[found.end() :]
        return path

    def error(self, error: ForebayError) -> ForebayError:
        """`error` of the chat completion as one of the request: `param`, and the path that the text begins with."""
        if not isinstance(error, InvalidRequest | ContextTooLong):
            return error
        detail = self.of(error.detail)
        if isinstance(error, ContextTooLong):
            detail = re.sub(r"\bmax_tokens\b", self._limit, detail)
        param = None if error.param is None else self.of(error.param)
        return type(error)(detail, param=param, retry_after_s=error.retry_after_s)
