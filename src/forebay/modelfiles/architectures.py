"""What the embedded engine can run, and how it says no to the rest."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast, get_args

from forebay.core.errors import ModelFileError
from forebay.modelfiles.model import Architecture

SUPPORTED: Final[tuple[str, ...]] = get_args(Architecture)
_ROPE_KINDS: Final = ("default", "linear", "llama3")


def supported_architecture(name: str, where: Path) -> Architecture:
    """`name` where it is one of the supported ones; raises ModelFileError with their list otherwise."""
    if name not in SUPPORTED:
        kind = "a mixture of experts" if re.search("moe|mixtral", name) else "an architecture"
        raise ModelFileError(
            f"{where}: {name!r} is {kind} that cannot be loaded; supported are {', '.join(SUPPORTED)}. "
            "Another one can be given as an OpenVINO IR folder, or served by another engine through its URL"
        )
    return cast("Architecture", name)


def check_heads(num_heads: int, num_kv_heads: int, head_dim: int, where: Path) -> None:
    """Raise ModelFileError for head counts that no attention can have."""
    if min(num_heads, num_kv_heads, head_dim) < 1 or num_heads % num_kv_heads or head_dim % 2:
        raise ModelFileError(
            f"{where}: {num_heads} attention heads of size {head_dim} with {num_kv_heads} key-value heads do not fit "
            "each other: the counts must divide and the size be even"
        )


def rope_scaling(scaling: Mapping[str, object] | None, where: Path) -> Mapping[str, object] | None:
    """The rope scaling where there is one; raises ModelFileError for kinds that cannot be computed."""
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    if kind not in _ROPE_KINDS:
        raise ModelFileError(
            f"{where}: rope scaling {kind!r} is not supported; {', '.join(_ROPE_KINDS)} are. "
            "Remove `rope_scaling` to run the model within its original window"
        )
    return None if kind == "default" else scaling


def slug(name: str) -> str:
    """A model name fit for a URL or a label."""
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.") or "model"
