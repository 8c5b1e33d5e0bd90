"""A JSON schema as the grammar library may have it: everything in it is enforced, or it is refused.

Drafts 4 to 2020-12. Beyond what the library does, `oneOf` is taken where its alternatives are certainly apart, keywords
that restrict nothing are dropped, `unevaluatedProperties` is taken where it means `additionalProperties: false` or
nothing (`schema_unevaluated`), and formats are made stricter (`schema_patterns`). Refused are, beside keywords that are
not enforced, values whose cost has no bound, and schemas that only an endless text would match.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.places import Json, Node, as_reference, below, refusal, steps_of, subschemas
from forebay.engine.grammar.schema_cycles import never_ending
from forebay.engine.grammar.schema_disjoint import all_disjoint
from forebay.engine.grammar.schema_keywords import EXACT, check_keywords, is_number
from forebay.engine.grammar.schema_patterns import NARROWER
from forebay.engine.grammar.schema_unevaluated import without_unevaluated

DEEPEST_TEXT = 100
"""Nested lists and objects of a schema's text; the library's own reader ends at 128, what is around it counted."""
DEEPEST_SCHEMA = 200
"""Nested schemas with references followed: the library walks them on its stack, which holds about 1,500."""

# One way to write each text: a model cannot go astray in white space, and what a schema leaves no choice about is
# forced. Without `\u` escapes no name can be written in a second way that the rules for it do not see.
WRITTEN: Final = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allowed_escapes": 'nrbtf\\"',
    "coerce_one_of": False,
    "lenient": False,
}


@dataclass(frozen=True, slots=True)
class Visited:
    """A schema that can be reached, and what the client wrote there."""

    node: Node
    place: str
    keywords: frozenset[str]
    target: Json = None
    """What `$ref` points at."""


@dataclass(frozen=True, slots=True)
class ReadSchema:
    """A schema made ready. `visited` has every schema that is an object, by its `id`."""

    root: Node
    visited: dict[int, Visited]


def enforceable(text: str) -> Node:
    """The schema in `text`, made ready for the library; raises InvalidRequest with the place of what is wrong."""
    return {**read_schema(text).root, "x-guidance": dict(WRITTEN)}


def read_schema(text: str) -> ReadSchema:
    """As `enforceable`, with the places of the schemas inside."""
    schema = _parsed(text)
    if schema is True:
        schema = {}
    if schema is False:
        raise refusal("#", "the schema is false, so nothing matches it")
    if not isinstance(schema, dict):
        raise refusal("#", "a schema is an object, true or false")
    root = cast(Node, schema)
    root.pop("x-guidance", None)
    return _Walk(root).run()


def _parsed(text: str) -> Json:
    try:
        schema = json.loads(text, parse_constant=_not_a_number)
        _check_depth(schema, DEEPEST_TEXT)
    except ValueError as error:
        raise InvalidRequest(f"the JSON schema is not JSON: {error}") from error
    except RecursionError:
        raise InvalidRequest(f"the JSON schema is nested more than {DEEPEST_TEXT} deep") from None
    if "\\ud" in text.lower():
        _check_characters(schema, "#")
    return schema


def _not_a_number(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def _check_depth(value: Json, left: int) -> None:
    if left == 0:
        raise RecursionError
    if isinstance(value, dict | list):
        for each in cast(list[Json], value.values() if isinstance(value, dict) else value):
            _check_depth(each, left - 1)


def _check_characters(value: Json, place: str) -> None:
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise refusal(place, "there is half of a surrogate pair, which is no character")
    elif isinstance(value, list):
        for index, each in enumerate(cast(list[Json], value)):
            _check_characters(each, below(place, index))
    elif isinstance(value, dict):
        for name, each in cast(Node, value).items():
            _check_characters(name, place)
            _check_characters(each, below(place, name))


class _Walk:
    """Visits every schema that can be reached from the root, once, in the library's order."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._visited: dict[int, Visited] = {}
        self._refers = False

    def run(self) -> ReadSchema:
        self._visit(self._root, "#", 0)
        if self._refers:
            endless = never_ending([each.node for each in self._visited.values()], self._target)
            if endless is not None:
                wrong = "every value would have to contain another one like it, without end"
                raise refusal(self._visited[id(endless)].place, wrong)
        return ReadSchema(self._root, self._visited)

    def _visit(self, node: Node, place: str, depth: int) -> None:
        if id(node) in self._visited:
            return
        if depth > DEEPEST_SCHEMA:
            raise refusal(place, f"schemas are nested more than {DEEPEST_SCHEMA} deep")
        self._visited[id(node)] = Visited(node, place, frozenset(node))
        if place != "#" and "$id" in node:
            raise refusal(place, "'$id' is supported only at the top")
        _drop_what_restricts_nothing(node)
        without_unevaluated(node, partial(self._target, place=place))
        check_keywords(node, place)
        _narrow(node)
        for way, schema in subschemas(node):
            if isinstance(schema, dict):
                self._visit(cast(Node, schema), below(place, *way), depth + 1)
        if "$ref" in node:
            self._refer(node, place, depth)
        if "oneOf" in node:
            self._one_of_as_any_of(node, place)

    def _refer(self, node: Node, place: str, depth: int) -> None:
        self._refers = True
        target = self._target(node["$ref"], place)
        steps = steps_of(node["$ref"]) or []
        node["$ref"] = as_reference(steps)
        if isinstance(target, dict):
            self._visited[id(node)] = replace(self._visited[id(node)], target=target)
            self._visit(cast(Node, target), below("#", *steps), depth + 1)

    def _one_of_as_any_of(self, node: Node, place: str) -> None:
        if not all_disjoint(node["oneOf"], self._target):
            wrong = "'oneOf' is supported where its alternatives cannot match the same value; use 'anyOf'"
            raise refusal(place, wrong)
        if "anyOf" in node:
            node["allOf"] = [*node.get("allOf", ()), {"anyOf": node.pop("oneOf")}]
        else:
            node["anyOf"] = node.pop("oneOf")

    def _target(self, reference: str, place: str = "#") -> Json:
        """What a `$ref` points at; as the library, only within this schema."""
        steps = steps_of(reference)
        if steps is None:
            raise refusal(place, f"'$ref' to {reference!r} is not supported; it must begin with '#/'")
        found: Json = self._root
        for step in steps:
            if isinstance(found, dict) and step in found:
                found = cast(Node, found)[step]
            elif isinstance(found, list) and step in map(str, range(len(cast(list[Json], found)))):
                found = cast(list[Json], found)[int(step)]
            else:
                raise refusal(place, f"'$ref' points to {reference!r}, which is not there")
        if not isinstance(found, dict | bool):
            raise refusal(place, f"'$ref' points to {reference!r}, which is no schema")
        return found


def _is_anything(value: Json) -> bool:
    return value is True or value == {}


_RESTRICTS_NOTHING: dict[str, Callable[[Json, Node], bool]] = {
    "uniqueItems": lambda value, node: value is False,
    "not": lambda value, node: value is False,
    "propertyNames": lambda value, node: _is_anything(value) or value == {"type": "string"},
    "unevaluatedProperties": lambda value, node: _is_anything(value),
    "unevaluatedItems": lambda value, node: _is_anything(value),
    "dependentRequired": lambda value, node: value == {},
    "dependentSchemas": lambda value, node: value == {},
    "dependencies": lambda value, node: value == {},
    "then": lambda value, node: "if" not in node,
    "else": lambda value, node: "if" not in node,
    "minContains": lambda value, node: "contains" not in node,
    "maxContains": lambda value, node: "contains" not in node,
    "if": lambda value, node: "then" not in node and "else" not in node,
    "required": lambda value, node: value == [],
    "$dynamicAnchor": lambda value, node: True,
    "$recursiveAnchor": lambda value, node: True,
}


def _drop_what_restricts_nothing(node: Node) -> None:
    idle = [key for key, value in node.items() if key in _RESTRICTS_NOTHING and _RESTRICTS_NOTHING[key](value, node)]
    for keyword in idle:
        del node[keyword]


def _narrow(node: Node) -> None:
    """Replaces what the library takes too widely, or not at all, by what matches less."""
    for keyword in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        if keyword in node:
            # Nothing is ever so long; larger numbers do not fit the library's own.
            node[keyword] = min(int(node[keyword]), 10**9)
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if is_number(node.get(keyword)):
            node[keyword] = max(min(node[keyword], EXACT), -EXACT)
    narrower = NARROWER.get(node.get("format", ""))
    if narrower is not None:
        types = {"type": node["type"]} if "type" in node else {}
        node["allOf"] = [*node.get("allOf", ()), {**types, **narrower}]
