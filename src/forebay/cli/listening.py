"""Where a server that was just started can be reached."""

import os
import secrets
from pathlib import Path


def write_port(path: Path, port: int) -> None:
    """Write the port to `path`, which appears whole."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    beside.write_text(f"{port}\n")
    beside.replace(path)


def tell_port(fd: int, port: int) -> None:
    """Write the port to the open file descriptor `fd`, mostly a pipe of whoever started this process, and close it."""
    with os.fdopen(fd, "w") as pipe:
        pipe.write(f"{port}\n")


def base_url(host: str, port: int) -> str:
    """The URL by which this machine itself reaches a server that listens on `host`."""
    if host in {"0.0.0.0", "::", ""}:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
