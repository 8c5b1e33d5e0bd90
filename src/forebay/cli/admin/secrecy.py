"""Keys that were typed where their ids belong: they must not get into addresses, and so into logs."""

import re
from collections.abc import Iterable

from forebay.core.errors import InvalidRequest
from forebay.tenancy.keys import KEY_PREFIX

_SECRET = re.compile(rf"(?<![A-Za-z0-9_-]){KEY_PREFIX}[A-Za-z0-9_-]{{43}}(?![A-Za-z0-9_-])", re.ASCII)
"""A key as Forebay makes them."""
ADVICE = "that is a key itself, not its id; `forebay key list` shows the ids. Nothing was sent."


def key_id_of(text: str, name: str = "KEY") -> str:
    """The text itself, which is to be a key's id. Raises InvalidRequest, which does not repeat it."""
    if text.startswith(KEY_PREFIX):
        raise InvalidRequest(f"{name}: {ADVICE}")
    return text


def require_no_secret(texts: Iterable[str]) -> None:
    """Of the parts of an address. Raises InvalidRequest, which does not repeat them."""
    if any(_SECRET.search(text) for text in texts):
        raise InvalidRequest(f"Of what was given, one is no id: {ADVICE}")
