"""What each keyword of a JSON schema may hold, and which ones are understood.

The grammar library refuses most of what it does not enforce, but without saying where, and it takes some values whose
cost has no bound. So each keyword is looked at here first.
"""

import math
from collections.abc import Callable
from typing import cast

from forebay.engine.grammar.places import Json, Node, refusal
from forebay.engine.grammar.schema_patterns import check_pattern

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
FORMATS = frozenset({"date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"})
NOT_ENFORCED = frozenset({
    "$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if",
    "maxContains", "minContains", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    "uniqueItems",
})  # fmt: skip
EXACT = 2**53
"""Whole numbers up to this size are exact in the grammar library, which has only floats."""
MOST_OF_MULTIPLE = 10_000
"""`multipleOf`, written without its decimal point, has as many lexer states as this: about 35 ms of compiling."""
MOST_PROPERTIES = 1_000
"""Named properties of one object; compiling takes the square of it, 0.1 s here."""
MOST_PATTERNS = 64
MOST_LENGTH = 100_000
MOST_LENGTH_OF_PATTERN = 2_000
"""The shortest text that a pattern or format may have to reach; every character of it is a lexer state."""


def check_keywords(node: Node, place: str) -> None:
    """Raises InvalidRequest for the first keyword of one schema that is wrong or cannot be enforced."""
    for keyword, value in node.items():
        if keyword in NOT_ENFORCED:
            raise refusal(place, f"the keyword '{keyword}' is not supported")
        if keyword in _SHAPES and not _SHAPES[keyword][0](value):
            raise refusal(place, f"'{keyword}' must be {_SHAPES[keyword][1]}")
    _check_strings(node, place)
    _check_numbers(node, place)
    _check_arrays(node, place)
    _check_objects(node, place)
    for value in [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]:
        _check_constant(value, place)


def _check_strings(node: Node, place: str) -> None:
    if "pattern" in node:
        check_pattern(node["pattern"], place)
    if node.get("format", "date") not in FORMATS and "string" in types_of(node):
        known = ", ".join(sorted(FORMATS))
        raise refusal(place, f"the format {node['format']!r} is not supported; these are: {known}")
    most = MOST_LENGTH_OF_PATTERN if "pattern" in node or "format" in node else MOST_LENGTH
    if node.get("minLength", 0) > most:
        raise refusal(place, f"'minLength' is at most {most} here")


def _check_numbers(node: Node, place: str) -> None:
    if "multipleOf" in node:
        text = f"{node['multipleOf']:.15f}".rstrip("0").replace(".", "").lstrip("0")
        if not text or int(text) > MOST_OF_MULTIPLE:
            raise refusal(
                place, f"'multipleOf' may have as many digits as make {MOST_OF_MULTIPLE} without its decimal point"
            )
    for keyword, wrong_side in (("minimum", 1), ("exclusiveMinimum", 1), ("maximum", -1), ("exclusiveMaximum", -1)):
        bound = node.get(keyword)
        if bound is not None and is_number(bound) and bound * wrong_side > EXACT:
            raise refusal(place, f"'{keyword}' is beyond what is exact, {EXACT * wrong_side}")


def _check_arrays(node: Node, place: str) -> None:
    if node.get("minItems", 0) > MOST_LENGTH:
        raise refusal(place, f"'minItems' is at most {MOST_LENGTH} here")
    if "prefixItems" in node and ("additionalItems" in node or isinstance(node.get("items"), list)):
        raise refusal(place, "'prefixItems' goes with one schema in 'items', not with 'additionalItems' or a list")


def _check_objects(node: Node, place: str) -> None:
    for keyword, most in (("properties", MOST_PROPERTIES), ("patternProperties", MOST_PATTERNS)):
        if len(node.get(keyword, ())) > most:
            raise refusal(place, f"'{keyword}' has more than {most} entries")
    for pattern in node.get("patternProperties", ()):
        check_pattern(pattern, place)
    # Names that a map may have are not kept apart, and of two equal ones a reader sees one.
    open_ended = node.get("additionalProperties", True) is not False or "patternProperties" in node
    if open_ended and node.get("minProperties", 0) > len(set(node.get("required", ()))) + 1:
        raise refusal(place, "'minProperties' is supported up to one more than there are names in 'required'")


def _check_constant(value: Json, place: str) -> None:
    if isinstance(value, str):
        if any((char < " " and char not in "\b\f\n\r\t") or char == "\x7f" for char in value):
            raise refusal(place, "'enum' and 'const' cannot have control characters")
    elif is_number(value):
        if abs(value) > EXACT:
            raise refusal(place, f"'enum' and 'const' cannot have numbers beyond {EXACT}")
    elif isinstance(value, list):
        for each in cast(list[Json], value):
            _check_constant(each, place)
    elif isinstance(value, dict):
        for name, each in cast(Node, value).items():
            _check_constant(name, place)
            _check_constant(each, place)


def types_of(node: Node) -> frozenset[str]:
    """The types that `type` allows; all where it is absent."""
    types = node.get("type", TYPES)
    return frozenset([types] if isinstance(types, str) else types)


def is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_schema(value: Json) -> bool:
    return isinstance(value, dict | bool)


def _is_map(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, cast(Node, value).values()))


def _is_list(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, cast(list[Json], value)))


def _is_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast(list[Json], value))


def _is_types(value: Json) -> bool:
    names = cast(list[Json], value) if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


_Shape = tuple[Callable[[Json], bool], str]
_COUNT: _Shape = (_is_count, "a whole number from 0")
_BOUND: _Shape = (lambda value: is_number(value) or isinstance(value, bool), "a number")
_SHAPES: dict[str, _Shape] = {
    "type": (_is_types, f"one or a list of {', '.join(sorted(TYPES))}"),
    "enum": (lambda value: isinstance(value, list) and bool(cast(list[Json], value)), "a list of at least one value"),
    "$ref": (_is_text, "a text"),
    "pattern": (_is_text, "a text"),
    "format": (_is_text, "a text"),
    "required": (_is_names, "a list of names"),
    "properties": (_is_map, "an object of schemas"),
    "patternProperties": (_is_map, "an object of schemas"),
    "additionalProperties": (_is_schema, "a schema"),
    "additionalItems": (_is_schema, "a schema"),
    "items": (lambda value: _is_schema(value) or value == [] or _is_list(value), "a schema"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), (_is_list, "a list of at least one schema")),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _BOUND),
    **dict.fromkeys(("minimum", "maximum"), (is_number, "a number")),
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above 0"),
}
"""Keyword to whether a value fits, and what to say if not."""
