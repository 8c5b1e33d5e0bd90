"""A pool: the replicas that serve one model version."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from forebay.core.errors import CapacityUnavailable
from forebay.fleet.choice import ReplicaSnapshot, choose
from forebay.fleet.replica import Endpoint, Replica

RETRY_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to send one request to one replica."""

    replica: Replica
    endpoint: Endpoint


class Pool:
    """Chooses the replica of each request and counts what each has outstanding.

    `exact_fields` says that its replicas take exactly the requests that the platform's own wire structs describe, so
    that one they would refuse can be refused before it is sent.
    """

    def __init__(self, name: str, replicas: Sequence[Replica], *, exact_fields: bool) -> None:
        self.name = name
        self.exact_fields = exact_fields
        self._replicas = tuple(replicas)

    @contextmanager
    def lease(self, excluded: frozenset[str] = frozenset()) -> Generator[Lease]:
        """Hold one replica, none of `excluded`, for one request. Raises CapacityUnavailable where none is ready."""
        index = choose(self.snapshots(), excluded)
        if index is None:
            raise CapacityUnavailable(
                f"No replica of the pool {self.name} is ready ({self._why()}). Try again shortly.",
                retry_after_s=RETRY_AFTER_S,
            )
        replica = self._replicas[index]
        assert replica.endpoint is not None, "a ready replica has an address"
        replica.outstanding += 1
        try:
            yield Lease(replica, replica.endpoint)
        finally:
            replica.outstanding -= 1

    @property
    def ready(self) -> bool:
        """Whether any replica would take a request now."""
        return choose(self.snapshots(), frozenset()) is not None

    @property
    def max_model_len(self) -> int | None:
        """Prompt plus output tokens that any of its replicas takes; None where none has told."""
        return min((each.max_model_len for each in self._replicas if each.max_model_len is not None), default=None)

    @property
    def knows_extensions(self) -> bool:
        """Whether its replicas understand vLLM's extensions of OpenAI's fields, as far as they have told an address."""
        return all(each.endpoint is None or each.endpoint.takes_priority for each in self._replicas)

    def snapshots(self) -> tuple[ReplicaSnapshot, ...]:
        return tuple(replica.snapshot() for replica in self._replicas)

    def _why(self) -> str:
        return ", ".join(f"{replica.name} is {describe(replica)}" for replica in self.snapshots())


def describe(replica: ReplicaSnapshot) -> str:
    """The state in one word."""
    return replica.state if replica.state != "ready" or replica.reachable else "unreachable"
