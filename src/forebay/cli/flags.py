"""Command-line flags made of a settings struct: one flag a field, its default and its text with it."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from cyclopts import Parameter

from forebay.config.checking import field_types
from forebay.config.documentation import field_texts
from forebay.core.errors import ConfigurationError

S = TypeVar("S", bound=msgspec.Struct)


def settings_flags(type_: type[msgspec.Struct], *, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Keyword parameters for the fields of `type_`, as cyclopts reads them off a signature: without the fields'
    constraints, which are checked when the struct is made.
    """
    texts, annotations = field_texts(type_), get_type_hints(type_)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[annotations[field.name], Parameter(help=texts.get(field.name, ""))],
        )
        for field in msgspec.structs.fields(type_)
        if field.name not in without
    ]


def settings_of(type_: type[S], given: Mapping[str, Any]) -> S:
    """The struct with the fields that were given. Raises ConfigurationError, naming the flag."""
    names = {field.name for field in msgspec.structs.fields(type_)}
    for name in names & given.keys():
        try:
            msgspec.convert(given[name], field_types(type_)[name])
        except msgspec.ValidationError as error:
            flag = "--" + name.replace("_", "-")
            raise ConfigurationError(f"{flag}: {str(error)[:1].lower()}{str(error)[1:]}.", param=flag) from None
    return msgspec.convert({name: value for name, value in given.items() if name in names}, type_)
