"""Where in a JSON schema the fault lies that the grammar library found: it says what is wrong, and seldom where."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from forebay.engine.grammar.json_schema import WRITTEN, ReadSchema, read_schema
from forebay.engine.grammar.places import Json, Node, below, refusal, shortened, steps_of, subschemas

Fault = Callable[[str], str]
"""What the library says is wrong with a source; empty where it takes it."""
LONGEST_SEARCH_S: Final = 0.2
"""After that, the smallest schema found so far is named."""

_ROOT: Final = "#/$defs/root"
"""Where the whole schema lies in the document that one of its parts is tried in, for references."""
_NOT_COPIED: Final = frozenset({"$defs", "definitions", "$id", "$schema", "x-guidance"})
_WRITTEN_AS: Final = {
    "anyOf": ("oneOf",),
    "allOf": ("oneOf", "format"),
    "additionalProperties": ("unevaluatedProperties",),
    "items": ("unevaluatedItems",),
}
"""Keyword of a schema made ready to the ones that it may have been made from."""
_MET_BY_TYPE: Final = frozenset({"enum", "const", "allOf", "anyOf", "oneOf", "$ref"})
_UNREAD_PATTERN = re.compile(r"regex parse error:\n {4}(?P<pattern>.*)\n[ ^]*\nerror: (?P<why>.*)")
_INSIDE_ROOT = re.compile(r"json-schema:///#" + re.escape(_ROOT[1:]))
_ELSEWHERE = re.compile(r"\n\s*while processing [^#\n]*(?P<reference>.*)")


def blame(text: str, fault: Fault, deadline: float) -> str | None:
    """What is wrong with the schema in `text`, and at which place; None where the library takes it. `deadline` is a
    time of `time.monotonic`; raises InvalidRequest for a schema that does not even come to the library.
    """
    return _Search(read_schema(text), fault, deadline).found()


class _Search:
    """Goes down from the root to the smallest schema that fails by itself and makes the one around it fail."""

    def __init__(self, schema: ReadSchema, fault: Fault, deadline: float) -> None:
        self._schema = schema
        self._library = fault
        self._deadline = deadline
        self._around: Node = {"x-guidance": WRITTEN}
        if "$schema" in schema.root:
            self._around["$schema"] = schema.root["$schema"]
        for visited in schema.visited.values():
            if "$ref" in visited.node:
                visited.node["$ref"] = _ROOT + visited.node["$ref"][1:]
        self._root = json.dumps({key: value for key, value in schema.root.items() if key not in ("$id", "$schema")})

    def found(self) -> str | None:
        node = self._schema.root
        complaint = self._complaint(node)
        if not complaint:
            return None
        said = _readable(complaint)
        named = self._named(complaint)
        if named is not None and self._fault(named) == said:
            node = named
        seen = {id(node)}
        while (smaller := self._smaller(node, said, seen)) is not None:
            node, said = smaller
        visited = self._schema.visited[id(node)]
        keywords = self._keywords(node, said)
        within = f", in {_listed(_as_written(keywords, visited.keywords))}" if keywords else ""
        late = " or below" if self._late() else ""
        return refusal(visited.place, f"{said}{within}", late).detail

    def _smaller(self, node: Node, said: str, seen: set[int]) -> tuple[Node, str] | None:
        """A schema right inside `node`, or that it refers to, without whose fault the one of `node` would not be, or
        else one that has the same.
        """
        same: Node | None = None
        for way, schema in self._inside(node):
            if id(schema) in seen:
                continue
            if self._late():
                return None
            its = self._fault(schema)
            if its and self._fault(_without(node, way)) != said:
                seen.add(id(schema))
                return schema, its
            if its == said and same is None:
                same = schema
        if same is None:
            return None
        seen.add(id(same))
        return same, said

    def _inside(self, node: Node) -> list[tuple[tuple[str | int, ...], Node]]:
        """What may be to blame, references last: they take long, and may come back to where they began."""
        target = self._schema.visited[id(node)].target
        found = [*subschemas(node), *([(("$ref",), target)] if isinstance(target, dict) else [])]
        visited = [(way, schema) for way, schema in found if id(schema) in self._schema.visited]
        return sorted(visited, key=lambda each: "$ref" in each[1])

    def _keywords(self, node: Node, said: str) -> list[str]:
        """Those without which the fault would be another one or none; none where there is no time to tell."""
        kept = {key: value for key, value in node.items() if key not in _NOT_COPIED}
        for keyword in reversed(list(kept)):
            if self._late():
                return []
            fewer = {key: value for key, value in kept.items() if key != keyword}
            if self._fault(fewer) == said:
                kept = fewer
        if not _MET_BY_TYPE & kept.keys() and len(kept) > 1:
            kept.pop("type", None)
        return list(kept)

    def _named(self, complaint: str) -> Node | None:
        """The schema that the library was at: where it stands behind a reference, it says so."""
        found = _ELSEWHERE.search(complaint)
        if found is None or not found["reference"].startswith(_ROOT):
            return None
        place = below("#", *(steps_of("#" + found["reference"].removeprefix(_ROOT)) or []))
        return next((each.node for each in self._schema.visited.values() if each.place == place), None)

    def _fault(self, node: Mapping[str, Json]) -> str:
        return _readable(self._complaint(node))

    def _complaint(self, node: Mapping[str, Json]) -> str:
        own = {key: value for key, value in node.items() if key not in _NOT_COPIED}
        document = json.dumps({**own, **self._around})
        if '"$ref"' in document:
            document = f'{document[:-1]}, "$defs": {{"root": {self._root}}}}}'
        return self._library(f'{{"grammars": [{{"json_schema": {document}}}]}}')

    def _late(self) -> bool:
        return time.monotonic() > self._deadline


def _without(node: Node, way: tuple[str | int, ...]) -> Node:
    """`node` with what lies there restricting nothing; an alternative, with it never matching."""
    keyword, *step = way
    if keyword == "$ref":
        return {key: value for key, value in node.items() if key != "$ref"}
    if not step:
        return {**node, str(keyword): True}
    inside: Json = node[str(keyword)]
    if isinstance(inside, dict):
        return {**node, str(keyword): {**inside, step[0]: True}}
    others = [keyword not in ("anyOf", "oneOf") if index == step[0] else each for index, each in enumerate(inside)]
    return {**node, str(keyword): others}


def _readable(fault: str) -> str:
    """On one line, and without what quotes half the schema."""
    fault = _INSIDE_ROOT.sub("#", _ELSEWHERE.sub("", fault)).partition(":  (")[0].strip()
    unread = _UNREAD_PATTERN.fullmatch(fault)
    if unread is None:
        return fault
    return f"the regular expression {shortened(unread['pattern'])!r} cannot be read: {unread['why']}"


def _as_written(keywords: list[str], written: frozenset[str]) -> list[str]:
    """The keywords that the client wrote for these."""
    named = [
        next((each for each in (keyword, *_WRITTEN_AS.get(keyword, ())) if each in written), keyword)
        for keyword in keywords
    ]
    return list(dict.fromkeys(named))


def _listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
