"""Schemas that only an endless text could match."""

from collections.abc import Callable, Sequence
from typing import cast

from forebay.engine.grammar.places import Json, Node
from forebay.engine.grammar.schema_keywords import types_of


def never_ending(nodes: Sequence[Node], target: Callable[[str], Json]) -> Node | None:
    """The first of `nodes` whose every instance would need one more of itself inside; `target` finds a `$ref`'s schema.

    `nodes` are all schemas that can be reached, those inside after those around them. The least fixed point of "can
    end": whatever never comes to be in it, never ends.
    """
    ending: set[int] = set()

    def ends(schema: Json) -> bool:
        # What is false is left to the grammar library: it tells optional from required parts.
        return isinstance(schema, bool) or id(cast(Node, schema)) in ending

    grew = True
    while grew:
        grew = False
        for node in reversed(nodes):
            if id(node) not in ending and _can_end(node, ends, target):
                ending.add(id(node))
                grew = True
    return next((node for node in nodes if id(node) not in ending), None)


def _can_end(node: Node, ends: Callable[[Json], bool], target: Callable[[str], Json]) -> bool:
    if "const" in node or "enum" in node:
        return True
    if "$ref" in node and not ends(target(node["$ref"])):
        return False
    if not all(map(ends, node.get("allOf", ()))):
        return False
    if any(keyword in node and not any(map(ends, node[keyword])) for keyword in ("anyOf", "oneOf")):
        return False
    types = types_of(node)
    if types - {"array", "object"}:
        return True
    return ("object" in types and _object_ends(node, ends)) or ("array" in types and _array_ends(node, ends))


def _object_ends(node: Node, ends: Callable[[Json], bool]) -> bool:
    properties: Node = node.get("properties", {})
    others: Json = node.get("additionalProperties", True)
    return all(ends(properties.get(name, others)) for name in node.get("required", ()))


def _array_ends(node: Node, ends: Callable[[Json], bool]) -> bool:
    items: Json = node.get("items", True)
    first, others = (
        (items, node.get("additionalItems", True)) if isinstance(items, list) else (node.get("prefixItems", []), items)
    )
    least = int(node.get("minItems", 0))
    return all(map(ends, first[:least])) and (least <= len(first) or ends(others))
