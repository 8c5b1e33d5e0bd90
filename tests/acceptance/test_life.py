"""How the platform's processes live and die."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest

from tests.acceptance.conftest import ENGINE_KEY
from tests.acceptance.processes import ForebayProcess, alive, forebay, run_forebay, until
from tests.support.tiny_chat_model import write_tiny_chat_model

QUESTION = [{"role": "user", "content": "Count to ten."}]

KEY = "a-key-that-is-configured"


def write_configuration(directory: Path, replicas: int = 1, more: str = "", **fleet: float) -> None:
    """One pool of a model that loads at once; `more` settings stand before the tables."""
    model = write_tiny_chat_model(directory / "model")
    fleet_lines = "\n".join(f"{name} = {value}" for name, value in fleet.items())
    (directory / "forebay.toml").write_text(f"""
data_dir = "data"
tenancy.api_key = "${{THE_KEY}}"
{more}

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


def client_of(process: ForebayProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=process.url, api_key=KEY, max_retries=0, timeout=120)


def ask(process: ForebayProcess) -> str:
    answer = client_of(process).chat.completions.create(model="small", messages=QUESTION, max_tokens=4)
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
        kill_whole(first)
        for _ in range(20):
            assert ask(process)
        until("both are ready", lambda: ready_replicas(process) == 2, process.process, process.output)
        kill_whole(second)
        for _ in range(20):
            assert ask(process)


def kill_whole(pid: int) -> None:
    """A process that is dying still takes connections while its memory is given back; what it takes then breaks off."""
    os.kill(pid, signal.SIGKILL)
    until("the killed one is gone", lambda: not alive(pid), limit_s=20)


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
    assert small.printed().endswith("Stopped.\n")


@pytest.mark.parametrize("twice", [False, True])
def test_what_still_runs_when_the_gateway_ends_is_told_so(tmp_path: Path, twice: bool) -> None:
    write_configuration(tmp_path, more=f"gateway.drain_timeout_s = {600 if twice else 0.5}")
    body = {"model": "small", "messages": QUESTION, "max_tokens": 8000}
    with platform_of(tmp_path) as process, ThreadPoolExecutor() as threads:
        client = httpx.Client(base_url=process.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)
        whole = threads.submit(client.post, "/chat/completions", json=body, headers={"X-Request-Id": "whole"})
        with client.stream("POST", "/chat/completions", json=body | {"stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            until("both run", lambda: process.health()["pools"]["small"]["replicas"][0]["outstanding"] == 2)
            process.process.send_signal(signal.SIGINT)
            if twice:
                until("it drains", lambda: process.health()["status"] == "draining")
                assert client.get(f"{process.root}/health/ready").status_code == 503
                process.process.send_signal(signal.SIGINT)
            *_, last = [line for line in lines if line]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "capacity_unavailable"
        refused = whole.result()
        assert refused.status_code == 503
        assert refused.headers["X-Request-Id"] == "whole"
        assert refused.json()["type"].endswith("capacity-unavailable")
        assert process.process.wait(60) == 0
    printed = process.printed()
    assert "Traceback" not in printed
    (logged,) = [
        json.loads(line) for line in printed.splitlines() if '"event": "request"' in line and '"whole"' in line
    ]
    assert logged["status"] == 503


def test_what_is_printed_can_be_pasted(tmp_path: Path) -> None:
    """With a key that was configured, and a name that is not the pool's."""
    write_configuration(tmp_path, more='aliases."it\'s mine" = "small"')
    with platform_of(tmp_path) as process:
        printed = process.printed()
        assert "ready: it's mine." in printed
        environment = dict(os.environ) | {"API_KEY": KEY}
        curl = next(line for line in printed.splitlines() if line.startswith("curl "))
        said = subprocess.run(curl, shell=True, env=environment, capture_output=True, check=True, timeout=60).stdout
        assert json.loads(said)["model"] == "it's mine"
        code = printed[printed.index("import os\n") : printed.index("Ctrl-C")]
        command = [sys.executable, "-c", code]
        assert subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60).stdout.strip()
        (model,) = client_of(process).models.list()
        told = {"max_model_len": 8192, "version": "model", "precision": "f32", "limits": {}}
        assert (model.id, model.model_extra) == ("it's mine", {**told, "root": None, "parent": None})


def test_an_engine_alone_says_how_to_call_it(tmp_path: Path) -> None:
    model = write_tiny_chat_model(tmp_path / "model")
    key = {"FOREBAY_REPLICA_API_KEY": "its-key"}
    with forebay(tmp_path, ["engine", "serve", "--model", str(model), "--kv-cache-gb", "0.1"], key) as process:
        until("it says so", lambda: "\ncurl " in process.printed(), process.process, process.output)
        loading, served, curl = process.printed().splitlines()[:3]
        assert loading == f"Loading {model} …"
        assert f"is served at {process.url}" in served
        environment = dict(os.environ) | key
        said = subprocess.run(curl, shell=True, env=environment, capture_output=True, check=True, timeout=60).stdout
        assert json.loads(said)["choices"][0]["message"]["role"] == "assistant"


def test_doctor_asks_a_server_elsewhere_for_the_model(engine: ForebayProcess, tmp_path: Path) -> None:
    pool = f'url = "{engine.url}"\nengine = "forebay"\napi_key = "{ENGINE_KEY}"\n'
    file = tmp_path / "forebay.toml"
    file.write_text(f'data_dir = "data"\ngateway.port = 0\n[pools.big]\n{pool}upstream_model = "engine-model"\n')
    assert run_forebay(["doctor"], tmp_path).returncode == 0
    file.write_text(f'data_dir = "data"\ngateway.port = 0\n[pools.big]\n{pool}')
    done = run_forebay(["doctor"], tmp_path)
    assert done.returncode == 1
    assert "does not list 'big'. Set pools.big.upstream_model to a name that it has: engine-model." in done.stdout


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
