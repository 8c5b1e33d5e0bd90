"""Where the command line goes, with which key, and what it says where it gets no good answer."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.cli.conftest import Cli
from tests.contract.gateway_admin.platform import OPERATOR, AdminPlatform


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FOREBAY_URL", "FOREBAY_API_KEY", "FOREBAY_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def configure(directory: Path, platform: AdminPlatform, more: str = "") -> Path:
    file = directory / "forebay.toml"
    file.write_text(f'data_dir = "data"\n{more}\n[gateway]\nport = {platform.port}\n')
    return file


def keep_key(directory: Path, key: str) -> None:
    data = directory / "data"
    data.mkdir(mode=0o700)
    (data / "api-key").write_text(key)
    (data / "api-key").chmod(0o600)


def test_beside_a_running_gateway_nothing_need_be_said(forebay: Cli, platform: AdminPlatform, tmp_path: Path) -> None:
    configure(tmp_path, platform)
    keep_key(tmp_path, OPERATOR)
    ran = forebay("tenant", "create", "acme")
    assert ran.code == 0, ran.err


def test_the_environment_s_address_goes_with_the_kept_key(
    forebay: Cli, platform: AdminPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\n')
    keep_key(tmp_path, OPERATOR)
    monkeypatch.setenv("FOREBAY_URL", f"http://127.0.0.1:{platform.port}/")
    assert forebay("tenant", "list").out == "There are no tenants.\n"


def test_the_configured_key_goes_before_the_kept_one(forebay: Cli, platform: AdminPlatform, tmp_path: Path) -> None:
    file = configure(tmp_path, platform, f'tenancy.api_key = "{OPERATOR}"')
    keep_key(tmp_path, "another-key-0123456789")
    file = file.rename(tmp_path / "other.toml")
    assert forebay("tenant", "list", "--config", str(file)).code == 0


def test_no_key_says_how_to_get_one(forebay: Cli, platform: AdminPlatform, tmp_path: Path) -> None:
    configure(tmp_path, platform)
    ran = forebay("tenant", "list")
    assert ran.code != 0
    assert "forebay serve" in ran.err and "--api-key" in ran.err
    assert not (tmp_path / "data").exists()


def test_this_machine_s_own_key_is_not_sent_elsewhere(forebay: Cli, platform: AdminPlatform, tmp_path: Path) -> None:
    configure(tmp_path, platform)
    keep_key(tmp_path, OPERATOR)
    ran = forebay("tenant", "list", "--url", "http://models.invalid:8000")
    assert ran.code != 0
    assert "belongs to this machine" in ran.err
    assert forebay("tenant", "list", "--url", f"http://localhost:{platform.port}/v1/").code == 0


def test_a_wrong_key(forebay: Cli, platform: AdminPlatform) -> None:
    ran = forebay("tenant", "list", "--url", f"http://{platform.host}:{platform.port}", "--api-key", "wrong-key")
    assert ran.code == 1
    assert ran.err.startswith("Invalid API key: ")
    assert "wrong-key" not in ran.err


def test_nobody_listens(forebay: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ran = forebay("tenant", "list", "--url", f"http://127.0.0.1:{port}", "--api-key", "k")
    assert ran.code == 1
    assert f"http://127.0.0.1:{port} (from --url): Connection refused" in ran.err
    assert "`forebay serve`" in ran.err


@pytest.mark.parametrize(
    ("url", "said"),
    [("127.0.0.1:8000", "--url: expected"), ("ftp://x", "--url: expected"), ("http://", "--url: expected")],
)
def test_a_wrong_address(forebay: Cli, url: str, said: str) -> None:
    ran = forebay("tenant", "list", "--url", url, "--api-key", "k")
    assert ran.code == 78
    assert said in ran.err


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that says the same to everyone."""
    listening, started = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def serve() -> None:
        stop = asyncio.Event()
        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            started.append((asyncio.get_running_loop(), stop, server.sockets[0].getsockname()[1]))
            listening.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert listening.wait(10)
    loop, stop, port = started[0]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\n<h1>", "status 502: <h1>"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<h1>", "cannot be understood"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "broke off"),
        (
            b"HTTP/1.1 308 P\r\nLocation: https://x.invalid/\r\nContent-Length: 0\r\n\r\n",
            "redirects to https://x.invalid/",
        ),
        (b"", "broke off"),
    ],
)
def test_what_is_no_gateway(forebay: Cli, answer: bytes, said: str) -> None:
    with answering(answer) as url:
        ran = forebay("tenant", "list", "--url", url, "--api-key", "k")
    assert ran.code == 1
    assert said in ran.err
