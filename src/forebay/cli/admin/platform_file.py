"""`platform.yaml`: what operators want there to be."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from forebay.cli.admin.inputs import text_of, unix_time
from forebay.cli.admin.sections import SECTIONS, Fields, Section, ordered
from forebay.cli.admin.wording import in_our_words, with_choices
from forebay.cli.admin.yaml_reading import read_yaml
from forebay.config.checking import suggestion
from forebay.core.errors import ConfigurationError, InvalidRequest

TIMES = frozenset({"effective_from", "expires_at"})
FILE = "file"
"""In place of a prompt's `text`: a file with it, relative to the declaring one."""

Declaration = Mapping[str, Sequence[Fields]]
"""The sections of a file: kind → its resources, every field with its value."""


def read_platform_file(file: Path) -> Declaration:
    """Raises ConfigurationError, which tells of all that is wrong."""
    base = Path.cwd() if str(file) == "-" else file.parent
    try:
        return parse_platform(text_of(file, "-f"), str(file), base)
    except InvalidRequest as error:
        raise ConfigurationError(error.detail) from None


def parse_platform(text: str, name: str, base: Path) -> Declaration:
    """`name` is told in errors; files that the text names are relative to `base`. Raises ConfigurationError."""
    tree = read_yaml(text, name)
    if not isinstance(tree, dict) or not tree:
        raise ConfigurationError(f"{name}: expected sections, of {', '.join(SECTIONS)}; there are none.")
    problems: list[str] = []
    declaration: dict[str, list[Fields]] = {}
    for key, entries in tree.items():
        if key not in SECTIONS:
            problems.append(f"{key}: there is no such section; {suggestion(str(key), SECTIONS)}")
        elif not isinstance(entries, list):
            problems.append(f"{key}: expected a list, got {_kind_of(entries)}; write [] for none.")
        else:
            reader = _Reader(SECTIONS[key], base)
            declaration[key] = [read for index, entry in enumerate(entries) if (read := reader.read(index, entry))]
            problems += reader.problems
    if problems:
        raise ConfigurationError("\n".join(f"{name}: {problem}" for problem in problems))
    return {kind: declaration[kind] for kind in SECTIONS if kind in declaration}


class _Reader:
    """Reads the entries of one section and gathers what is wrong with them."""

    def __init__(self, section: Section, base: Path) -> None:
        self._section = section
        self._base = base
        self._seen: dict[tuple[Any, ...], str] = {}
        self.problems: list[str] = []

    def read(self, index: int, entry: Any) -> Fields | None:
        """None where something is wrong with it."""
        path = f"{self._section.kind.name}[{index}]"
        if not isinstance(entry, dict):
            self.problems.append(f"{path}: expected fields and their values, got {_kind_of(entry)}.")
            return None
        before = len(self.problems)
        fields: dict[str, Any] = {}
        for key, value in entry.items():
            self.problems += self._put(fields, str(key), value, f"{path}.{key}")
        if len(self.problems) > before:
            return None
        whole = {**self._section.defaults, **fields}
        self.problems += self._whole_problems(whole, path)
        return whole if len(self.problems) == before else None

    def _put(self, fields: dict[str, Any], key: str, value: Any, path: str) -> Iterator[str]:
        types = self._section.types
        if key == FILE and "text" in types:
            yield from self._put_text(fields, value, path)
        elif key not in types:
            yield f"{path}: there is no such field; {suggestion(key, types)}"
        else:
            try:
                read = _as_time(value, path) if key in TIMES else value
                fields[key] = ordered(key, msgspec.convert(read, types[key]))
            except msgspec.ValidationError as error:
                yield f"{path}{with_choices(in_our_words(_below(error)), types[key])}."
            except InvalidRequest as error:
                yield error.detail

    def _put_text(self, fields: dict[str, Any], value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{path}: expected the name of a file, got {_kind_of(value)}."
            return
        if "text" in fields:
            yield f"{path}: text is given as well; give one of the two."
            return
        try:
            fields["text"] = msgspec.convert(text_of(self._base / value, path), self._section.types["text"])
        except InvalidRequest as error:
            yield error.detail
        except msgspec.ValidationError as error:
            yield f"{path}{_below(error)}."

    def _whole_problems(self, whole: Mapping[str, Any], path: str) -> Iterator[str]:
        """What is missing, what does not go together, what was there before."""
        section = self._section
        missing = [name for name in section.types if name not in whole]
        if section.kind.name == "keys" and not whole.get("name"):
            missing.append("name")
        if missing:
            yield from (f"{path}.{name}: is missing." for name in missing)
            return
        row = {**whole, **section.stand_ins}
        if section.kind.name == "prices" and row["effective_from"] is None:
            row["effective_from"] = 0.0
        try:
            msgspec.convert(row, section.kind.type)
        except msgspec.ValidationError as error:
            yield f"{path}: {_lower(str(error))}."
            return
        identity = tuple(whole[name] for name in section.identity)
        if identity in self._seen:
            yield f"{path}: {section.name_of(whole)} is there already as {self._seen[identity]}; leave one out."
        self._seen.setdefault(identity, path)


def _as_time(value: Any, path: str) -> Any:
    """Unix seconds of a date, a time, or seconds; what is of no such type as it is. Raises InvalidRequest."""
    if isinstance(value, str):
        return unix_time(value, path)
    return float(value) if isinstance(value, Decimal) else value


def _below(error: msgspec.ValidationError) -> str:
    """What is wrong with a value, where in it, if it is not the whole."""
    message, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`")
    return f"{'' if place.startswith('[...]') else place}: {_lower(message)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _kind_of(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
