"""The events of a stream as one answer: the texts that came in pieces are whole again."""

from collections.abc import Iterator
from typing import Any

import msgspec

PREFIX = b"data:"
LAST = b"[DONE]"
FIXED = frozenset({"role", "type", "id", "index", "finish_reason", "name"})
"""Members of a piece that come once, whole."""


def join_events(events: bytes) -> dict[str, Any]:
    """The members of the last event that has them, with `choices` put together from all events. What is no event that
    can be read is left out, and counted in `unreadable_events`.
    """
    answer: dict[str, Any] = {}
    choices: dict[int, Any] = {}
    unreadable = 0
    for event in _events(events):
        if event is None:
            unreadable += 1
            continue
        for piece in _pieces(event.pop("choices", None)):
            index = _index(piece)
            choices[index] = _joined(choices.get(index), piece)
        answer.update((name, value) for name, value in event.items() if value is not None)
    return answer | {"choices": list(choices.values())} | ({"unreadable_events": unreadable} if unreadable else {})


def _events(data: bytes) -> Iterator[dict[str, Any] | None]:
    for line in data.splitlines():
        said = line.removeprefix(PREFIX).strip()
        if not line.startswith(PREFIX) or said == LAST:
            continue
        try:
            yield msgspec.json.decode(said, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            yield None


def _pieces(value: Any) -> list[dict[str, Any]]:
    pieces: list[Any] = value if isinstance(value, list) else []
    return [piece for piece in pieces if isinstance(piece, dict)]


def _index(piece: dict[str, Any]) -> int:
    index = piece.get("index")
    return index if isinstance(index, int) else 0


def _joined(before: Any, piece: Any, member: str = "") -> Any:
    """Texts one after the other, objects member by member, lists of objects by their `index`; else the newer."""
    if before is None:
        before = {} if isinstance(piece, dict) else [] if isinstance(piece, list) else None
    match before, piece:
        case _, None:
            return before
        case str(), str():
            return piece if member in FIXED else before + piece
        case dict(), dict():
            return before | {name: _joined(before.get(name), value, name) for name, value in piece.items()}
        case list(), list():
            return _joined_lists(before, piece)
        case _:
            return piece


def _joined_lists(before: list[Any], pieces: list[Any]) -> list[Any]:
    if not all(isinstance(piece, dict) and "index" in piece for piece in pieces):
        return before + pieces
    by_index = {_index(one): one for one in before}
    for piece in pieces:
        by_index[_index(piece)] = _joined(by_index.get(_index(piece)), piece)
    return list(by_index.values())
