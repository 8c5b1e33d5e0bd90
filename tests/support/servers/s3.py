"""A real S3 server on this machine's loopback, from a wheel: SeaweedFS."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.support.servers.process import ServerProcess, free_ports

ACCESS_KEY = "forebay-test"
SECRET_KEY = "secret-of-forebay-test"
BUCKET = "forebay"
REGION = "us-east-1"
START_LIMIT_S = 60.0
_PORTS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")


class S3Server:
    """A server with the bucket `forebay`, whose objects stay while it is stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = ServerProcess(directory / "log")
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        (directory / "data").mkdir()
        (directory / "s3.json").write_text(json.dumps(_identities()))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def options(self) -> dict[str, str]:
        """As `open_objects` takes them."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
        }

    def start(self) -> None:
        command = [
            str(Path(sys.executable).parent / "weed"),
            *("server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self._directory / 'data'}"),
            *("-master.volumeSizeLimitMB=64", "-volume.max=20", "-master.telemetry=false"),
            *("-filer", "-s3", f"-s3.config={self._directory / 's3.json'}"),
            *("-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *("-filer.localSocket=" + str(self._directory / "f"), "-s3.localSocket=" + str(self._directory / "s")),
        ]
        for name, port in self._ports.items():
            part, _, kind = name.partition(".")
            command.append(f"-{part}.port{'.' + kind if kind else ''}={port}")
        self._process.start(command, self._answers, START_LIMIT_S, cwd=self._directory)

    def stop(self) -> None:
        """At once; whoever is connected is cut off."""
        self._process.end()

    def _answers(self) -> bool:
        store = S3Store(
            BUCKET,
            config={
                "endpoint": self.endpoint,
                "region": REGION,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            client_options={"allow_http": True, "timeout": "2s"},
            retry_config={"max_retries": 0},
        )
        try:
            # The server makes the bucket with the first object in it.
            obstore.put(store, "ready", b"")
        except (BaseError, OSError):
            return False
        return True


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A running server until the end of the block. It dies with this process, however that ends."""
    # Sockets' paths must be short, which pytest's own directories are not.
    directory = Path(tempfile.mkdtemp(prefix="forebay-s3-"))
    try:
        server = S3Server(directory)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _identities() -> dict[str, object]:
    return {
        "identities": [
            {
                "name": "forebay",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }
