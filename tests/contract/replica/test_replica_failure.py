"""A replica whose engine breaks says so, to its clients and to whoever watches it."""

from collections.abc import Iterator, Sequence

import httpx
import openai
import pytest
from openai import OpenAI

from forebay.core.clock import SystemClock
from forebay.engine.build import build_core
from forebay.engine.grammar.compiler import GrammarCompiler
from forebay.engine.runner import SequenceSlice, StepLogits
from forebay.engine.service import AsyncEngine
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.model import ModelFiles
from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.contract.replica.conftest import MODEL
from tests.support.fake_runner import FakeRunner
from tests.support.running_app import RunningApp, running


class BreakingRunner(FakeRunner):
    """Works until it has run `steps_left` more steps."""

    steps_left = 1_000_000

    def run(self, slices: Sequence[SequenceSlice]) -> StepLogits:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise MemoryError("a block of the secret prompt is gone")
        return super().run(slices)


@pytest.fixture
def runner() -> BreakingRunner:
    return BreakingRunner(num_blocks=64, block_size=16)


@pytest.fixture
def broken(runner: BreakingRunner, model: ModelFiles) -> Iterator[RunningApp]:
    grammars = GrammarCompiler(model.tokenizer, runner.capacity.vocab_size, model.eos_token_ids)
    engine = AsyncEngine(build_core(runner, model, EngineSettings()), grammars, SystemClock(), max_model_len=512)
    try:
        with running(create_app(engine, model, ReplicaSettings(served_model_name=MODEL))) as app:
            yield app
    finally:
        engine.close()


def test_before_the_first_token_it_is_an_error_response(runner: BreakingRunner, broken: RunningApp) -> None:
    runner.steps_left = 0
    for stream in (False, True):
        body = {"model": MODEL, "prompt": "a", "stream": stream}
        response = httpx.post(f"{broken.url}/v1/completions", json=body)
        assert response.status_code >= 500
        assert "secret" not in response.text
    health = httpx.get(f"{broken.url}/health")
    assert health.status_code == 503
    assert health.json() == {"status": "failed"}


@pytest.mark.parametrize("n", [1, 3])
def test_after_it_it_is_an_error_event(runner: BreakingRunner, broken: RunningApp, n: int) -> None:
    runner.steps_left = 5
    with OpenAI(base_url=f"{broken.url}/v1", api_key="unused", max_retries=0) as client:
        stream = client.completions.create(model=MODEL, prompt="a", n=n, max_tokens=100, stream=True)
        with pytest.raises(openai.APIError) as raised:
            list(stream)
    assert raised.value.code == "internal_error"
    assert "secret" not in str(raised.value)
