"""Settings given as environment variables: `FOREBAY_GATEWAY__PORT=9000` is `gateway.port = 9000`."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import msgspec

from forebay.config.checking import field_types, suggestion, table_of
from forebay.config.tree import Config
from forebay.fleet.drivers.local import REPLICA_KEY_VARIABLE

PREFIX = "FOREBAY_"
SEPARATOR = "__"
CONFIG_VARIABLE = "FOREBAY_CONFIG"
URL_VARIABLE = "FOREBAY_URL"
API_KEY_VARIABLE = "FOREBAY_API_KEY"
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, REPLICA_KEY_VARIABLE, URL_VARIABLE, API_KEY_VARIABLE})


def operators_url(environment: Mapping[str, str]) -> str | None:
    """The gateway that the commands for operators are to speak to."""
    return environment.get(URL_VARIABLE) or None


def operators_key(environment: Mapping[str, str]) -> str | None:
    """The key with which they do."""
    return environment.get(API_KEY_VARIABLE) or None


def given_in(environment: Mapping[str, str], *settings: str) -> list[str]:
    """The environment variables that give any of the settings, such as `gateway.port`."""
    names = {setting.replace(".", SEPARATOR) for setting in settings}
    return sorted(
        variable
        for variable in environment
        if variable.startswith(PREFIX) and variable.removeprefix(PREFIX).lower() in names
    )


def overlay(tree: dict[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    """Put the environment's settings into `tree`; yields what is wrong with them."""
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS:
            steps = variable.removeprefix(PREFIX).lower().split(SEPARATOR)
            problem = _put(tree, Config, steps, text)
            if problem is not None:
                yield f"environment variable {variable}: {problem}"


def _put(tree: dict[str, Any], annotation: Any, steps: list[str], text: str) -> str | None:
    """Set the value at `steps` below a table; returns what is wrong, if anything."""
    table = table_of(annotation)
    if get_origin(table) is dict:
        key, below = _key_in(tree, steps[0]), get_args(table)[1]
    else:
        known = field_types(table)
        key = steps[0]
        if key not in known:
            return f"unknown setting {key!r}; {suggestion(key, known)}"
        below = known[key]
    if table_of(below) is not None:
        if len(steps) == 1:
            return f"{key} is a table; name a setting below it ({variable_hint(steps)})."
        child = tree.setdefault(key, {})
        # What is not a table is told of when the whole tree is checked.
        return _put(child, below, steps[1:], text) if isinstance(child, dict) else None
    if len(steps) > 1:
        return f"{key} is a value, there is nothing below it."
    try:
        tree[key] = _value(text, below)
    except msgspec.ValidationError as error:
        return f"{str(error)[:1].lower()}{str(error)[1:]}."
    return None


def variable_hint(steps: list[str]) -> str:
    return f"…{SEPARATOR.join(step.upper() for step in steps)}{SEPARATOR}SETTING"


def _key_in(tree: Mapping[str, Any], step: str) -> str:
    """The key that a variable's part means: one that is there already, `-` and `.` being written `_`; else with `-`."""
    for key in tree:
        if key.lower().replace("-", "_").replace(".", "_") == step:
            return key
    return step.replace("_", "-")


def _value(text: str, annotation: Any) -> Any:
    """The text as a value of the type: as it stands, or as TOML writes it (a list, say)."""
    try:
        return msgspec.to_builtins(msgspec.convert(text, annotation, strict=False))
    except msgspec.ValidationError as error:
        try:
            parsed = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise error from None
        return msgspec.to_builtins(msgspec.convert(parsed, annotation))
