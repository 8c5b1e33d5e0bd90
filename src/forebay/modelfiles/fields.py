"""Typed access to what a model file says about itself."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

from forebay.core.errors import ModelFileError

_T = TypeVar("_T")


class Fields:
    """The named values of one file. Each getter raises ModelFileError, naming file and key, for a value of another
    type. A value that is absent or null is the default; without one, that is an error too.
    """

    def __init__(self, values: Mapping[str, object], where: Path) -> None:
        self._values = values
        self.where = where

    @classmethod
    def from_json(cls, path: Path) -> "Fields":
        """Read a JSON object; raises ModelFileError where the file is missing or is not one."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ModelFileError(f"{path.parent} has no {path.name}") from error
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path} cannot be read as JSON: {error}") from error
        if not isinstance(values, dict):
            raise ModelFileError(f"{path} must hold a JSON object, not {type(values).__name__}")
        return cls(cast("dict[str, object]", values), path)

    def raw(self, key: str) -> object:
        """The value as it stands; None where absent."""
        return self._values.get(key)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._default(key, default, "an integer")

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        return self._default(key, default, "a number")

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._values.get(key)
        return value if isinstance(value, bool) else self._default(key, default, "true or false")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key)
        return value if isinstance(value, str) else self._default(key, default, "a text")

    def sequence(self, key: str, default: Sequence[object] | None = None) -> Sequence[object]:
        value = self._values.get(key)
        return cast("list[object]", value) if isinstance(value, list) else self._default(key, default, "a list")

    def nested(self, key: str) -> "Fields | None":
        """A nested object; None where absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._error(key, "an object")
        return Fields(cast("dict[str, object]", value), self.where)

    def as_mapping(self) -> Mapping[str, object]:
        return self._values

    def _default(self, key: str, default: _T | None, kind: str) -> _T:
        if default is None or self._values.get(key) is not None:
            raise self._error(key, kind)
        return default

    def _error(self, key: str, kind: str) -> ModelFileError:
        value = self._values.get(key)
        found = "it is missing" if value is None else f"found {value!r:.80}"
        return ModelFileError(f"{self.where}: {key!r} must be {kind}, but {found}")
