"""Markers in a text that is still coming."""


def held_at_end(text: str, marker: str) -> int:
    """The length of the longest end of `text` that is a beginning of `marker` (but not all of it)."""
    start = max(len(text) - len(marker) + 1, 0)
    while (start := text.find(marker[0], start)) >= 0:
        if marker.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
