"""The scripts that run in Valkey: package files beside this one, each an atomic step."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

PRELUDE = ("bucket", "books")
NAMES = ("acquire", "extend", "settle", "renew", "outstanding", "seed_spent")
OF_REPEATS = ("claim_repeat", "write_repeat", "release_repeat")


@dataclass(frozen=True, slots=True)
class Script:
    """`sha` is the name that Valkey gives it."""

    source: str
    sha: str


def load_scripts() -> Mapping[str, Script]:
    """Those of reservations by name, each with what all of them share put before it."""
    shared = "\n".join(map(_text, PRELUDE))
    return MappingProxyType({name: _script(f"{shared}\n{_text(name)}") for name in NAMES})


def load_repeat_scripts() -> Mapping[str, Script]:
    """Those of repeats by name."""
    return MappingProxyType({name: _script(_text(name)) for name in OF_REPEATS})


def _text(name: str) -> str:
    return (files("forebay.storage.counters") / "lua" / f"{name}.lua").read_text()


def _script(source: str) -> Script:
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
