"""Bytes of a request → a wire struct, or an error that says where it is wrong."""

import re
from typing import TypeVar

import msgspec

from forebay.core.errors import ForebayError, InvalidRequest, MalformedJson

T = TypeVar("T")

MAX_DETAIL_CHARS = 500
"""A detail may quote what the client sent; this is how much of it we say back."""

_AT_PATH = re.compile(r"(.*) - at (`key` in )?`\$([^`]*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `([^`]+)`")
_AT_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)", re.DOTALL)
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u[dD](?:[89aAbB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|[c-fC-F][0-9a-fA-F]{2}))"
)
_PATH_STEP = re.compile(r"\.([^.\[\]]+)|\[[^\]]*\]")


class FieldError(ValueError):
    """A rule of a struct that its types cannot say, broken by `field` (a path below that struct).

    Raised in `__post_init__`; `decode` turns it into InvalidRequest with the whole path.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def decode(body: bytes, type_: type[T]) -> T:
    """The JSON text `body` as a `type_`.

    Raises MalformedJson (with line, column and byte) where it is not JSON, InvalidRequest (whose `param` is a path such
    as `messages[0].role`) where it is not a `type_`.
    """
    if not body.strip():
        raise MalformedJson("The request body is empty; send a JSON object.")
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        raise _invalid(error, type_) from None
    except msgspec.DecodeError as error:
        raise _malformed(str(error), body) from None
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply; flatten it.") from None


def bounded(text: str) -> str:
    """`text`, cut to a length that an error may carry."""
    return text if len(text) <= MAX_DETAIL_CHARS else text[:MAX_DETAIL_CHARS] + "…"


def _invalid(error: msgspec.ValidationError, type_: type) -> ForebayError:
    located = _AT_PATH.fullmatch(str(error))
    # A place in a map is told as `[...]`, without its name.
    message, path = (located[1], located[3].partition("[...]")[0]) if located else (str(error), "")
    cause = error.__cause__
    if isinstance(cause, FieldError):
        param = f"{path}.{cause.field}".lstrip(".")
        return InvalidRequest(bounded(f"{param}: {cause}"), param=param)
    if missing := _MISSING_FIELD.fullmatch(message):
        param = f"{path}.{missing[1]}".lstrip(".")
        return InvalidRequest(f"{param}: this field is required.", param=param)
    if message.startswith("Invalid enum value"):
        message = f"{_one_of(type_, path)}, got {message.removeprefix('Invalid enum value ')}"
    param = path.lstrip(".") or None
    return InvalidRequest(bounded(f"{param or 'The request body'}: {message[:1].lower()}{message[1:]}."), param=param)


def _malformed(message: str, body: bytes) -> MalformedJson:
    """Where and why; msgspec itself gives no position for cut-off text, bad UTF-8 and some bad escapes."""
    if at := _AT_BYTE.fullmatch(message):
        return MalformedJson(f"The request body is not valid JSON: {at[1]} at {_position(body, int(at[2]))}.")
    if "UTF-8" in message:
        return MalformedJson(f"The request body is not valid UTF-8 at {_position(body, _first_invalid_utf8(body))}.")
    if lone := _LONE_SURROGATE.search(body):
        position = _position(body, lone.start(1))
        return MalformedJson(f"The request body is not valid JSON: half of a UTF-16 surrogate pair at {position}.")
    return MalformedJson(f"The request body is not valid JSON: it ends too early, at {_position(body, len(body))}.")


def _first_invalid_utf8(body: bytes) -> int:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(body)


def _position(body: bytes, byte: int) -> str:
    """Line and column from 1 (the column in bytes), byte from 0."""
    before = body[:byte]
    line = before.count(b"\n") + 1
    column = byte - (before.rfind(b"\n") + 1) + 1
    return f"line {line}, column {column} (byte {byte})"


def _one_of(type_: type, path: str) -> str:
    """The words that the field at `path` may be."""
    found = [msgspec.inspect.type_info(type_)]
    for step in _PATH_STEP.finditer(path):
        found = [below for each in found for below in _below(each, step[1])]
    words = [
        repr(word) for each in _flat(found) if isinstance(each, msgspec.inspect.LiteralType) for word in each.values
    ]
    return f"expected one of {', '.join(words)}" if words else "expected another value"


def _flat(types: list[msgspec.inspect.Type]) -> list[msgspec.inspect.Type]:
    return [
        member for each in types for member in (each.types if isinstance(each, msgspec.inspect.UnionType) else (each,))
    ]


def _below(type_: msgspec.inspect.Type, field: str | None) -> list[msgspec.inspect.Type]:
    """The types one step below: of `field`, or of an element where it is None."""
    below: list[msgspec.inspect.Type] = []
    for each in _flat([type_]):
        if isinstance(each, msgspec.inspect.StructType) and field is not None:
            below += [known.type for known in each.fields if known.encode_name == field]
        elif isinstance(each, msgspec.inspect.ListType | msgspec.inspect.VarTupleType) and field is None:
            below.append(each.item_type)
        elif isinstance(each, msgspec.inspect.DictType) and field is None:
            below.append(each.value_type)
    return below
