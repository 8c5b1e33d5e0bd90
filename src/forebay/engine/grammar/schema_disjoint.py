"""Whether two schemas can never match the same value; with such alternatives, `oneOf` means what `anyOf` means."""

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import cast

from forebay.engine.grammar.places import Json, Node
from forebay.engine.grammar.schema_keywords import is_number, types_of

_DEEPEST = 4
"""References and properties looked through; enough for unions told apart by a constant property."""


def all_disjoint(options: Sequence[Json], target: Callable[[str], Json]) -> bool:
    """True only where it is certain; `target` finds a `$ref`'s schema."""
    return all(_disjoint(one, other, target, _DEEPEST) for one, other in combinations(options, 2))


def _disjoint(one: Json, other: Json, target: Callable[[str], Json], depth: int) -> bool:
    if one is False or other is False:
        return True
    if depth == 0 or one is True or other is True:
        return False
    one, other = _resolved(cast(Node, one), target), _resolved(cast(Node, other), target)
    kinds, other_kinds = _kinds(one), _kinds(other)
    if not kinds & other_kinds:
        return True
    values, other_values = _values(one), _values(other)
    if values is not None and other_values is not None:
        return not values & other_values
    if kinds & other_kinds != frozenset({"object"}):
        return False
    properties, other_properties = one.get("properties", {}), other.get("properties", {})
    required = {*one.get("required", ()), *other.get("required", ())}
    return any(
        _disjoint(properties[name], other_properties[name], target, depth - 1)
        for name in required
        if name in properties and name in other_properties
    )


def _resolved(node: Node, target: Callable[[str], Json]) -> Node:
    """What a bare `$ref` stands for; a schema with more beside it is narrower than what it refers to."""
    found = target(node["$ref"]) if "$ref" in node else None
    return found if isinstance(found, dict) else node


def _kinds(node: Node) -> frozenset[str]:
    """The types of the values that may match, `integer` and `number` as one."""
    types = {"number" if name == "integer" else name for name in types_of(node)}
    values = _values(node)
    return frozenset(types if values is None else types & {_kind(json.loads(value)) for value in values})


def _values(node: Node) -> frozenset[str] | None:
    """The JSON texts of the only values that may match, or None where these are not listed."""
    if "const" in node:
        return frozenset([_text(node["const"])])
    return frozenset(map(_text, node["enum"])) if "enum" in node else None


def _text(value: Json) -> str:
    # 1 and 1.0 are one value.
    return json.dumps(float(value) if is_number(value) else value, sort_keys=True)


def _kind(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if is_number(value):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
