"""`python -m benchmarks.gateway.loader`: the load generator. A LoadPlan on standard input, a LoadResult on standard
output.
"""

import asyncio
import gc
import itertools
import random
import sys
import time
from collections.abc import Iterator

import msgspec

from benchmarks.gateway.client_connection import NANOS, ClientConnection, ConnectionEndedError, Seen
from benchmarks.gateway.load_plan import LoadPlan, LoadResult
from benchmarks.gateway.upstream import precise_loop

_MAX_CONNECTIONS = 400
"""What `select` can watch, with room for the rest."""
_LONGEST_S = 30.0
"""What the answers that still run at the end may take."""


class Load:
    """One load on its way."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._requests = self._encoded()
        self._result = LoadResult()
        self._idle: list[ClientConnection] = []
        self._open = 0

    async def run(self) -> LoadResult:
        began, cpu = time.monotonic(), time.process_time()
        modes = {"closed": self._closed, "open": self._open_loop, "streams": self._streams}
        async with asyncio.timeout(self._plan.duration_s + _LONGEST_S):
            await modes[self._plan.mode]()
        self._result.elapsed_s = time.monotonic() - began
        self._result.cpu_s = time.process_time() - cpu
        for connection in self._idle:
            connection.close()
        return self._result

    async def _closed(self) -> None:
        end = time.monotonic() + self._plan.duration_s

        async def caller() -> None:
            while time.monotonic() < end:
                await self._send()

        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.connections):
                group.create_task(caller())

    async def _open_loop(self) -> None:
        chance = random.Random(self._plan.seed)
        for _ in range(self._plan.connections):
            self._idle.append(await ClientConnection.open(self._plan.port))
            self._open += 1
        begin = time.monotonic()
        due = begin
        async with asyncio.TaskGroup() as group:
            while (due := due + self._pause(chance)) < begin + self._plan.duration_s:
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                self._result.lateness_s.append(max(0.0, time.monotonic() - due))
                group.create_task(self._send())

    def _pause(self, chance: random.Random) -> float:
        rate = self._plan.rate
        return chance.expovariate(rate) if self._plan.arrivals == "poisson" else 1 / rate

    async def _streams(self) -> None:
        chance = random.Random(self._plan.seed)
        end = time.monotonic() + self._plan.duration_s

        async def caller(wait_s: float) -> None:
            await asyncio.sleep(wait_s)
            while time.monotonic() < end:
                await self._send()

        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.connections):
                group.create_task(caller(chance.random() * self._plan.spread_s))

    async def _send(self) -> None:
        """One request on an idle connection, or on a new one; noted."""
        stream = self._plan.mode == "streams"
        try:
            connection = await self._connection()
        except OSError as error:
            self._fail(f"connect: {error.strerror}")
            # A server that refuses at once must not turn its callers into a busy loop.
            await asyncio.sleep(0.01)
            return
        try:
            seen = await connection.request(next(self._requests), stream=stream)
        except ConnectionEndedError:
            self._open -= 1
            self._fail("connection ended")
            return
        self._idle.append(connection)
        self._note(seen)

    async def _connection(self) -> ClientConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            self._open -= 1
        if self._open >= _MAX_CONNECTIONS:
            raise OSError(0, "more than can be watched")
        self._open += 1
        try:
            return await ClientConnection.open(self._plan.port)
        except OSError:
            self._open -= 1
            raise

    def _note(self, seen: Seen) -> None:
        result, plan = self._result, self._plan
        if seen.status != 200:
            self._fail(f"status {seen.status}")
        elif plan.mode == "streams" and (not seen.done or len(seen.pieces) != plan.chunks):
            self._fail(f"{len(seen.pieces)} pieces of {plan.chunks}, {'no ' if not seen.done else ''}end mark")
        elif plan.mode != "streams" and b'"choices"' not in seen.body:
            self._fail("no choices in the answer")
        else:
            result.good += 1
            result.latencies_s.append((seen.ended - seen.sent) / NANOS)
            if plan.mode == "streams":
                self._note_pieces(seen)

    def _note_pieces(self, seen: Seen) -> None:
        result = self._result
        result.pieces += len(seen.pieces)
        result.ttft_s.append((seen.pieces[0][1] - seen.sent) / NANOS)
        result.delays_s += [(came - written) / NANOS for written, came in seen.pieces]
        result.gaps_s += [(after[1] - before[1]) / NANOS for before, after in itertools.pairwise(seen.pieces)]

    def _fail(self, reason: str) -> None:
        self._result.errors[reason] = self._result.errors.get(reason, 0) + 1

    def _encoded(self) -> Iterator[bytes]:
        plan = self._plan
        lines = "".join(f"{name}: {value}\r\n" for name, value in plan.headers.items())
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{plan.port}\r\ncontent-type: application/json\r\n"
        )
        whole: list[bytes] = []
        for text in plan.bodies:
            body = text.encode()
            whole.append(f"{head}{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        # A different place for each run, so that runs do not repeat each other's first prompts.
        return itertools.cycle(whole[plan.seed % len(whole) :] + whole[: plan.seed % len(whole)])


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadPlan)
    # No pause of its own may look like one of the server's.
    gc.disable()
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        result = runner.run(Load(plan).run())
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
