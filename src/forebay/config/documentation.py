"""What each setting is, said once: in the string below it in its struct."""

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from forebay.config.checking import field_types, table_of
from forebay.config.tree import Config

DICT_KEYS = {"pools": "NAME", "aliases": "ALIAS"}


@dataclass(frozen=True, slots=True)
class DocumentedSetting:
    """One setting for people."""

    path: str
    type: str
    default: str
    text: str


def field_texts(type_: type[msgspec.Struct]) -> dict[str, str]:
    """Field → the string that stands below it."""
    body = ast.parse(textwrap.dedent(inspect.getsource(type_))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            texts[field.target.id] = " ".join(below.value.value.split())
    return texts


def all_settings() -> Iterator[DocumentedSetting]:
    """Every setting of the tree, tables before what is in them."""
    return _settings(Config, "")


def _settings(struct: type[msgspec.Struct], path: str) -> Iterator[DocumentedSetting]:
    texts, types_ = field_texts(struct), field_types(struct)
    for field in msgspec.structs.fields(struct):
        below = f"{path}{field.name}"
        table = table_of(types_[field.name])
        if table is None:
            yield DocumentedSetting(below, type_name(types_[field.name]), _default(field), texts.get(field.name, ""))
        elif get_origin(table) is dict:
            below += f".{DICT_KEYS[field.name]}"
            value = get_args(table)[1]
            if table_of(value) is None:
                yield DocumentedSetting(below, type_name(value), "", texts.get(field.name, ""))
            else:
                yield from _settings(table_of(value), below + ".")
        else:
            yield from _settings(table, below + ".")


def type_name(annotation: Any) -> str:
    """The type in words: `int, 1 to 64`, `"a" or "b"`."""
    if get_origin(annotation) is Annotated:
        base, *metas = get_args(annotation)
        limits = [_limits(meta) for meta in metas if isinstance(meta, msgspec.Meta)]
        return ", ".join([type_name(base), *[limit for limit in limits if limit]])
    if get_origin(annotation) in {Union, types.UnionType}:
        return " or ".join(type_name(each) for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {type_name(get_args(annotation)[0])}"
    return {str: "text", bool: "true or false"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(meta: msgspec.Meta) -> str:
    least = f"{meta.ge:g}" if meta.ge is not None else f"above {meta.gt:g}" if meta.gt is not None else ""
    most = f"{meta.le:g}" if meta.le is not None else ""
    if least and most:
        return f"{least} to {most}"
    if least:
        return least if least.startswith("above") else f"{least} or more"
    return f"{meta.min_length} characters or more" if (meta.min_length or 0) > 1 else ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT or field.default is None:
        return ""
    return msgspec.json.encode(field.default).decode()


def reference_table() -> str:
    """All settings as a Markdown table."""
    lines = ["| setting | type | default | what it does |", "|---|---|---|---|"]
    for setting in all_settings():
        default = f"`{setting.default}`" if setting.default else ""
        lines.append(f"| `{setting.path}` | {setting.type} | {default} | {setting.text} |")
    return "\n".join(lines) + "\n"
