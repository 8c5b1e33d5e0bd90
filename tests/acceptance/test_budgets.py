"""Monthly budgets: what is spent is known after any end of the platform, and more helps at once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.acceptance.operated import BRIEF_TOKENS, Operated, chat, operated, write_configuration
from tests.acceptance.processes import ForebayProcess, run_forebay, until

PROMPT_TOKENS = 21
BRIEF_NANOS = PROMPT_TOKENS * 1000 + BRIEF_TOKENS * 2000
"""What one whole answer of `brief` costs."""


def ask(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(**chat(**{"max_tokens": BRIEF_TOKENS, **more}))


def exhausted(client: openai.OpenAI, **more: Any) -> str:
    """What the client is told."""
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, **more)
    assert refused.value.status_code == 402
    body = refused.value.response.json()
    assert body["type"] == "urn:forebay:problem:budget-exhausted"
    return str(body["detail"])


def spent(service: Operated, client: openai.OpenAI) -> int:
    return sum(row["cost_nanos"] for row in service.usage(client.api_key, "alias"))


def test_it_is_spent_to_the_last_nano_dollar_and_more_helps(service: Operated) -> None:
    tenant = service.tenant()
    client = service.client(service.key(tenant)["secret"])
    service.quota(tenant, monthly_budget_usd=f"0.000{3 * BRIEF_NANOS - 1:06}")
    ask(client)
    ask(client)
    assert f"0.000{3 * BRIEF_NANOS - 1:06}" in exhausted(client)
    # What is free goes on.
    ask(client, model="endless")
    # A request that may cost less than is left does, too.
    ask(client, max_tokens=BRIEF_TOKENS - 1)
    exhausted(client)
    service.done("PATCH", f"quotas/{tenant}", {"monthly_budget_usd": "0.01"})
    ask(client)
    assert spent(service, client) == 4 * BRIEF_NANOS - 2000
    service.done("PATCH", f"quotas/{tenant}", {"monthly_budget_usd": "0.0001"})
    exhausted(client)


def test_a_stream_ends_when_its_budget_does(service: Operated) -> None:
    tenant = service.tenant(default_class="batch")
    client = service.client(service.key(tenant)["secret"])
    budget = PROMPT_TOKENS * 500 + 800 * 2000
    service.quota(tenant, monthly_budget_usd=f"0.00{budget:07}")
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(**chat(model="endless"), **options))
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] == "length"
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert 760 <= usage.completion_tokens <= 830
    assert spent(service, client) == PROMPT_TOKENS * 500 + usage.completion_tokens * 2000
    exhausted(client, model="endless", max_tokens=60)


def test_a_budget_that_comes_later_counts_what_was_spent_before(service: Operated) -> None:
    tenant = service.tenant()
    client = service.client(service.key(tenant)["secret"])
    for _ in range(3):
        ask(client)
    service.quota(tenant, monthly_budget_usd=f"0.000{4 * BRIEF_NANOS - 1:06}")

    def counted() -> bool:
        try:
            ask(client)
        except openai.APIStatusError as error:
            assert error.status_code == 402
            return True
        return False

    until("it counts", counted, limit_s=10)


@pytest.fixture
def own(tmp_path: Path, tiny_models: Path) -> Path:
    """The directory of a platform that a test may kill."""
    write_configuration(tmp_path / "own", tiny_models, "metering.seen_every_s = 0.05")
    return tmp_path / "own"


def kill(process: ForebayProcess) -> None:
    process.process.kill()
    process.process.wait(30)


def test_it_survives_whatever_ends_the_platform(own: Path) -> None:
    with operated(own) as service:
        service.set_prices()
        tenant, runner = service.tenant(), service.tenant(default_class="batch")
        key, running = service.key(tenant)["secret"], service.key(runner)["secret"]
        service.quota(tenant, monthly_budget_usd=f"0.000{2 * BRIEF_NANOS:06}")
        service.quota(runner, monthly_budget_usd="0.004")
        ask(service.client(key))
        assert service.process.terminate() == 0
    with operated(own) as service:
        client = service.client(key)
        ask(client)
        exhausted(client)
        # A stream of 3.8 of the 4 thousandths of a dollar is cut off after more than half of that.
        stream = ask(service.client(running), model="endless", max_tokens=1900, stream=True)
        words = 0
        while words < 1200:
            words += (next(stream).choices[0].delta.content or "").count("w")
        kill(service.process)
    with operated(own) as service:
        exhausted(service.client(key))
        assert spent(service, service.client(key)) == 2 * BRIEF_NANOS
        assert spent(service, service.client(running)) >= 2_000_000
        assert "0.004" in exhausted(service.client(running), model="endless", max_tokens=1500)
        ask(service.client(running), model="endless", max_tokens=50)
        service.done("PATCH", f"quotas/{tenant}", {"monthly_budget_usd": "1"})
        ask(service.client(key))


def test_a_new_user_sees_a_limit_and_raises_it(service: Operated, tmp_path: Path) -> None:
    """With the command line alone, and no restart."""
    environment = {"FOREBAY_URL": service.process.root, "FOREBAY_API_KEY": "operator-key-0123456789"}

    def command(*arguments: str) -> str:
        done = run_forebay(arguments, tmp_path, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    command("tenant", "create", "newcomer", "--default-class", "batch")
    secret = command("key", "create", "newcomer", "--name", "first").split()[-1]
    command("quota", "set", "newcomer", "--requests-per-minute", "1", "--tokens-per-minute", "1000")
    assert "endless" in command("price", "list", "--model", "endless")
    client = service.client(secret)
    ask(client, model="endless")
    with pytest.raises(openai.RateLimitError) as refused:
        ask(client, model="endless")
    assert float(refused.value.response.headers["retry-after-ms"]) > 30_000
    command("quota", "set", "newcomer", "--requests-per-minute", "600")

    def let_in() -> bool:
        try:
            ask(client, model="endless")
        except openai.RateLimitError:
            return False
        return True

    until("the raised quota holds", let_in, limit_s=30)
    assert "newcomer" in command("usage", "report", "--month", f"{datetime.now(UTC):%Y-%m}")
