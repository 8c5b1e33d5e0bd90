"""How the platform's processes live and die."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

from tests.acceptance.processes import ForebayProcess, alive, forebay, run_forebay, until
from tests.support.tiny_chat_model import write_tiny_chat_model

QUESTION = [{"role": "user", "content": "Count to ten."}]

KEY = "a-key-that-is-configured"


def write_configuration(directory: Path, replicas: int = 1, **fleet: float) -> None:
    """One pool of a model that loads at once."""
    model = write_tiny_chat_model(directory / "model")
    fleet_lines = "\n".join(f"{name} = {value}" for name, value in fleet.items())
    (directory / "forebay.toml").write_text(f"""
data_dir = "data"
tenancy.api_key = "${{THE_KEY}}"

[fleet]
{fleet_lines}

[pools.small]
model = "{model}"
replicas = {replicas}
engine_settings = {{ weight_precision = "f32", kv_cache_gb = 0.1, swap_space_gb = 0.1 }}
""")


@contextmanager
def platform_of(directory: Path) -> Iterator[ForebayProcess]:
    with forebay(directory, ["serve"], {"THE_KEY": KEY, "SECRET_OF_THE_HOST": "do-not-tell"}) as process:
        until("its pool is ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)
        yield process


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ForebayProcess]:
    """A platform of one small pool, for a test to break."""
    write_configuration(tmp_path, probe_interval_s=0.3, restart_backoff_s=0.2)
    with platform_of(tmp_path) as process:
        yield process


def ask(process: ForebayProcess) -> str:
    client = openai.OpenAI(base_url=process.url, api_key=KEY, max_retries=0, timeout=120)
    answer = client.chat.completions.create(model="small", messages=QUESTION, max_tokens=4)
    return answer.choices[0].message.content or ""


def ready_replicas(process: ForebayProcess) -> int:
    return sum(replica["state"] == "ready" for replica in process.health()["pools"]["small"]["replicas"])


def test_a_killed_replica_comes_back_and_sigterm_ends_all_well(small: ForebayProcess) -> None:
    assert KEY not in small.printed()
    (child,) = small.children()
    # Only the system that has /proc shows another process's environment.
    if Path(f"/proc/{child}/environ").exists():
        environment = Path(f"/proc/{child}/environ").read_bytes()
        assert b"do-not-tell" not in environment
        assert KEY.encode() not in environment
    os.kill(child, signal.SIGKILL)
    until("the replica is missed", lambda: not small.health()["pools"]["small"]["ready"], small.process, limit_s=20)
    with pytest.raises(openai.InternalServerError) as refused:
        ask(small)
    assert refused.value.status_code == 503
    until("it is back", lambda: small.health()["pools"]["small"]["ready"], small.process, small.output)
    assert ask(small)
    assert small.health()["pools"]["small"]["replicas"][0]["restarts"] == 1
    (child,) = small.children()
    assert small.terminate() == 0
    assert not alive(child)


def test_a_replica_that_dies_mid_stream_ends_it_with_an_error(small: ForebayProcess) -> None:
    client = openai.OpenAI(base_url=small.url, api_key=KEY, max_retries=0, timeout=120)
    stream = client.chat.completions.create(model="small", messages=QUESTION, max_tokens=8000, stream=True)
    next(stream)
    (child,) = small.children()
    os.kill(child, signal.SIGKILL)
    with pytest.raises(openai.APIError, match="broke off"):
        for _ in stream:
            pass


def test_with_two_replicas_the_death_of_one_is_not_noticed(tmp_path: Path) -> None:
    write_configuration(tmp_path, replicas=2, probe_interval_s=0.3)
    with platform_of(tmp_path) as process:
        first, second = process.children()
        os.kill(first, signal.SIGKILL)
        for _ in range(20):
            assert ask(process)
        until("both are ready", lambda: ready_replicas(process) == 2, process.process, process.output)
        os.kill(second, signal.SIGKILL)
        for _ in range(20):
            assert ask(process)


def test_a_killed_gateway_leaves_no_child(small: ForebayProcess) -> None:
    (child,) = small.children()
    small.process.kill()
    small.process.wait()
    until("the replica is gone", lambda: not alive(child), limit_s=20)


def test_a_replica_that_hangs_is_replaced(tmp_path: Path) -> None:
    write_configuration(tmp_path, probe_interval_s=0.2, probe_timeout_s=1.0, probe_failures=2, stop_timeout_s=0.5)
    with platform_of(tmp_path) as process:
        (child,) = process.children()
        os.kill(child, signal.SIGSTOP)
        until("it is replaced", lambda: not alive(child), process.process, process.output, limit_s=30)
        until("another is ready", lambda: process.health()["pools"]["small"]["ready"], process.process, process.output)
        assert ask(process)


def test_ctrl_c_ends_all_well(small: ForebayProcess) -> None:
    (child,) = small.children()
    small.process.send_signal(signal.SIGINT)
    assert small.process.wait(60) == 0
    assert not alive(child)


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\n[pools.ghost]\nmodel = "no/such/model.gguf"\n')
    done = run_forebay(["serve", "--port", "0"], tmp_path)
    assert done.returncode == 78, done.stderr
    assert "no/such/model.gguf" in done.stdout
    assert "ghost" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_taken_port_is_said_clearly(tmp_path: Path) -> None:
    model = write_tiny_chat_model(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command in (["serve"], ["engine", "serve", "--model", str(model), "--kv-cache-gb", "0.1"]):
            done = run_forebay([*command, "--port", port], tmp_path, {"FOREBAY_DATA_DIR": str(tmp_path)})
            assert done.returncode == 78, done.stderr
            assert port in done.stderr
            assert "Traceback" not in done.stderr


def test_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "forebay.toml").write_text(
        'data_dir = "data"\ngateway.port = 0\n[pools.ghost]\nmodel = "no/such/model.gguf"\n'
    )
    done = run_forebay(["doctor"], tmp_path)
    assert done.returncode == 1
    assert "no/such/model.gguf" in done.stdout
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\ngateway.prot = 1\n')
    done = run_forebay(["doctor"], tmp_path)
    assert done.returncode == 1
    assert "did you mean port?" in done.stdout


def test_doctor_finds_nothing_wrong_with_the_defaults(tmp_path: Path) -> None:
    done = run_forebay(["doctor"], tmp_path, {"FOREBAY_DATA_DIR": str(tmp_path / "data"), "FOREBAY_GATEWAY__PORT": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "data").exists()


def test_help_and_version(tmp_path: Path) -> None:
    for arguments in (["--help"], ["serve", "--help"], ["engine", "serve", "--help"], ["doctor", "--help"]):
        done = run_forebay(arguments, tmp_path)
        assert done.returncode == 0
        assert "Usage: forebay" in done.stdout
    assert run_forebay(["--version"], tmp_path).stdout.strip()[0].isdigit()
