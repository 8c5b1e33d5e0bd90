"""What a change demands of the state that it changes."""

from dataclasses import dataclass
from typing import Any

from forebay.administration.kinds import Kind
from forebay.administration.store import Stored
from forebay.core.errors import PreconditionFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`revisions`: the resource is there, with one of these; None demands nothing. `present`: it is there, whatever its
    revision. `absent`: it is not there.
    """

    revisions: frozenset[int] | None = None
    present: bool = False
    absent: bool = False

    def check(self, kind: Kind[Any], id_: str, stored: Stored[Any] | None) -> None:
        """Raises PreconditionFailed."""
        if stored is None:
            if self.present or self.revisions is not None:
                raise PreconditionFailed(f"There is no {kind.noun} {id_}; leave out If-Match to create it.")
            return
        if self.absent:
            raise PreconditionFailed(f"The {kind.noun} {id_} is there already; leave out If-None-Match to change it.")
        if self.revisions is not None and stored.revision not in self.revisions:
            raise PreconditionFailed(
                f"The {kind.noun} {id_} is at revision {stored.revision} by now; read it again and decide anew."
            )


ANYHOW = Condition()
"""Demands nothing."""
