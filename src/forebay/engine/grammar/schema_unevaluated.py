"""`unevaluatedProperties` and `unevaluatedItems` where they say what simpler keywords say, or nothing."""

from collections.abc import Callable
from typing import cast

from forebay.engine.grammar.places import Json, Node

_DEEPEST = 16
"""References and combinations looked through."""
_ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
"""Keywords of which schemas beside the node's own may have evaluated something."""

Target = Callable[[str], Json]
"""Finds a `$ref`'s schema."""


def without_unevaluated(node: Node, target: Target) -> None:
    """Drops from `node` what restricts nothing, and turns what is plain into `additionalProperties` and its like."""
    if "unevaluatedProperties" in node:
        if _never(node, "object") or _all_properties(node, target, _DEEPEST):
            del node["unevaluatedProperties"]
        elif node["unevaluatedProperties"] is False and not _ELSEWHERE & node.keys():
            node["additionalProperties"] = node.pop("unevaluatedProperties")
    if "unevaluatedItems" in node:
        if _never(node, "array") or _all_items(node, target, _DEEPEST):
            del node["unevaluatedItems"]
        elif node["unevaluatedItems"] is False and not (_ELSEWHERE | {"contains"}) & node.keys():
            others = "additionalItems" if isinstance(node.get("items"), list) else "items"
            node[others] = node.pop("unevaluatedItems")


def _never(node: Node, kind: str) -> bool:
    types: Json = node.get("type")
    return kind not in types if isinstance(types, list) else isinstance(types, str) and types != kind


def _all_properties(node: Node, target: Target, depth: int) -> bool:
    """Whether every property of what matches is evaluated without `node`'s own `unevaluatedProperties`."""
    return "additionalProperties" in node or _elsewhere(node, target, depth, _properties_inside)


def _all_items(node: Node, target: Target, depth: int) -> bool:
    items: Json = node.get("items")
    if isinstance(items, dict | bool) or (isinstance(items, list) and "additionalItems" in node):
        return True
    return _elsewhere(node, target, depth, _items_inside)


def _properties_inside(node: Node, target: Target, depth: int) -> bool:
    return "unevaluatedProperties" in node or _all_properties(node, target, depth)


def _items_inside(node: Node, target: Target, depth: int) -> bool:
    return "unevaluatedItems" in node or _all_items(node, target, depth)


def _elsewhere(node: Node, target: Target, depth: int, everything: Callable[[Node, Target, int], bool]) -> bool:
    """Whether one schema that always applies beside the node's own keywords evaluates everything."""

    def of(schema: Json) -> bool:
        # What is false matches nothing, so there is nothing to evaluate.
        return schema is False or (isinstance(schema, dict) and everything(cast(Node, schema), target, depth - 1))

    if depth == 0:
        return False
    reference: Json = node.get("$ref")
    if isinstance(reference, str) and of(target(reference)):
        return True
    if any(map(of, _schemas(node, "allOf"))):
        return True
    return any((listed := _schemas(node, keyword)) and all(map(of, listed)) for keyword in ("anyOf", "oneOf"))


def _schemas(node: Node, keyword: str) -> list[Json]:
    value: Json = node.get(keyword)
    return cast(list[Json], value) if isinstance(value, list) else []
