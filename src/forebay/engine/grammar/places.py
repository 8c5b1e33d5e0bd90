"""How an error names what is wrong in a JSON schema."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from forebay.core.errors import InvalidRequest

Json = Any
"""What a JSON text decodes to; each use checks what it has."""
Node = dict[str, Json]
"""A schema that is an object; the other schemas are true and false."""
_MOST_SAID: Final = 500


def refusal(place: str, wrong: str, or_where: str = "") -> InvalidRequest:
    """`place` is a JSON pointer into the schema, such as `#/properties/size`; `wrong` a sentence's rest; `or_where`
    follows the place where it is not exact.
    """
    return InvalidRequest(f"the JSON schema cannot be enforced: {shortened(wrong)} (at {shortened(place)}{or_where})")


def shortened(text: str) -> str:
    """For a message: names and patterns may be as long as the whole schema."""
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]} ..."


def below(place: str, *steps: str | int) -> str:
    """The place of what lies under `place`."""
    return "/".join([place, *(str(step).replace("~", "~0").replace("/", "~1") for step in steps)])


def steps_of(reference: str) -> list[str] | None:
    """The steps of a reference within its own schema, such as `#/$defs/a~1b%20c`; None for another reference. As the
    grammar library has it, `#/` is the root too.
    """
    if reference in {"#", "#/"}:
        return []
    if not reference.startswith("#/"):
        return None
    return [step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[2:]).split("/")]


def as_reference(steps: Sequence[str]) -> str:
    """The one way to write a reference that the grammar library reads: as a URI."""
    return "#" + quote(below("", *steps), safe="/$~")


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
