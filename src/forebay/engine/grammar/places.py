"""How an error names what is wrong in a JSON schema."""

from collections.abc import Mapping
from typing import Any

from forebay.core.errors import InvalidRequest

Json = Any
"""What a JSON text decodes to; each use checks what it has."""
Node = dict[str, Json]
"""A schema that is an object; the other schemas are true and false."""


def refusal(place: str, wrong: str) -> InvalidRequest:
    """`place` is a JSON pointer into the schema, such as `#/properties/size`; `wrong` a sentence's rest."""
    return InvalidRequest(f"the JSON schema cannot be enforced: {wrong} (at {place})")


def below(place: str, *steps: str | int) -> str:
    """The place of what lies under `place`."""
    return "/".join([place, *(str(step).replace("~", "~0").replace("/", "~1") for step in steps)])


def subschemas(node: Mapping[str, Json]) -> list[tuple[tuple[str | int, ...], Json]]:
    """The schemas right inside a schema with the way to each, in the order of its keywords. `$ref` is not followed."""
    found: list[tuple[tuple[str | int, ...], Json]] = []
    for keyword, value in node.items():
        if keyword in ("properties", "patternProperties"):
            found += [((keyword, name), each) for name, each in value.items()]
        elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems") or (keyword == "items" and isinstance(value, list)):
            found += [((keyword, index), each) for index, each in enumerate(value)]
        elif keyword in ("items", "additionalItems", "additionalProperties"):
            found.append(((keyword,), value))
    return found
