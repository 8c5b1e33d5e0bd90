"""How Postgres is connected to. Needs the extra `postgres`."""

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

T = TypeVar("T")

PARAMETERS: dict[str, Any] = {
    "connect_timeout": 3,
    # A host that is gone without a word.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    # Poolers between us and the server do not keep prepared statements.
    "prepare_threshold": None,
}


class BoundedConnection(psycopg.Connection[Any]):
    """One that does not wait for ever for a server that hangs: the server's own time limits do not help there."""

    answer_limit_s = 10.0

    def wait(self, gen: PQGen[T], *more: Any, **named: Any) -> T:
        return super().wait(self._bounded(gen), *more, **named)

    def _bounded(self, gen: PQGen[T]) -> PQGen[T]:
        deadline = time.monotonic() + self.answer_limit_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE and time.monotonic() >= deadline:
                    self.close()
                    raise psycopg.OperationalError(f"the server did not answer within {self.answer_limit_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(answer_limit_s: float, *arguments: Any, **parameters: Any) -> BoundedConnection:
    """A connection by libpq's parameters, where one is had within a few seconds. Raises psycopg.OperationalError."""
    connection = BoundedConnection.connect(*arguments, **(PARAMETERS | parameters))
    connection.answer_limit_s = answer_limit_s
    return connection
