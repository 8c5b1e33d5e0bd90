"""What a replica tells of itself and of its tokens."""

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.replica.conftest import MODEL, Replica


def samples(http: httpx.Client) -> dict[tuple[str, str | None], float]:
    """The metrics' values by name and `finished_reason`; histograms' buckets left out."""
    text = http.get("/metrics").text
    found: dict[tuple[str, str | None], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["model_name"] == MODEL
            if "le" not in sample.labels:
                found[sample.name, sample.labels.get("finished_reason")] = sample.value
    return found


def test_the_model_is_listed_with_its_window(client: OpenAI, replica: Replica) -> None:
    (listed,) = client.models.list().data
    assert listed.id == MODEL
    assert listed.object == "model"
    assert listed.owned_by == "forebay"
    assert listed.model_extra is not None
    assert listed.model_extra["max_model_len"] == replica.engine.max_model_len
    assert client.models.retrieve(MODEL) == listed


def test_health(http: httpx.Client) -> None:
    response = http.get("/health")
    assert response.status_code == 200
    assert response.json() == {"status": "ready"}
    head = http.head("/health")
    assert head.status_code == 200
    assert head.content == b""


def test_metrics_have_vllms_names_and_move(http: httpx.Client, client: OpenAI) -> None:
    before = samples(http)
    prompt = "Metrics want a prompt of more than one block, so that the second time finds some of it. " * 2
    for _ in range(2):
        client.completions.create(model=MODEL, prompt=prompt, max_tokens=5, extra_body={"cache_salt": "metrics"})
    after = samples(http)

    def moved(name: str, reason: str | None = None) -> float:
        return after[f"vllm:{name}", reason] - before[f"vllm:{name}", reason]

    assert moved("generation_tokens_total") == 10
    assert moved("prompt_tokens_total") == moved("prefix_cache_queries_total") > 10
    assert 0 < moved("prefix_cache_hits_total") < moved("prompt_tokens_total") / 2
    assert moved("request_success_total", "length") == 2
    assert moved("request_success_total", "stop") == moved("request_success_total", "abort") == 0
    assert moved("time_to_first_token_seconds_count") == moved("e2e_request_latency_seconds_count") == 2
    assert moved("inter_token_latency_seconds_count") == 8
    assert 0 < moved("time_to_first_token_seconds_sum") <= moved("e2e_request_latency_seconds_sum")
    assert after["vllm:num_requests_running", None] == after["vllm:num_requests_waiting", None] == 0
    assert after["vllm:kv_cache_usage_perc", None] == 0
    assert ("vllm:num_preemptions_total", None) in after
    tried, right = (after[f"vllm:spec_decode_num_{name}_tokens_total", None] for name in ("draft", "accepted"))
    assert 0 <= right <= tried


def test_tokens_of_a_text_and_back(http: httpx.Client, replica: Replica) -> None:
    text = "Grüße, 世界"
    answer = http.post("/tokenize", json={"model": MODEL, "prompt": text, "return_token_strs": True}).json()
    assert answer["tokens"] == replica.model.tokenizer.encode(text, add_special_tokens=True)
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == replica.engine.max_model_len
    back = http.post("/detokenize", json={"model": MODEL, "tokens": answer["tokens"]}).json()
    assert text in back["prompt"]


def test_tokens_of_messages_are_those_of_a_chat(http: httpx.Client, client: OpenAI) -> None:
    messages = [{"role": "user", "content": "hi"}]
    answer = http.post("/tokenize", json={"messages": messages}).json()
    assert answer["token_strs"] is None
    chat = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=1)  # type: ignore[arg-type]
    assert chat.usage is not None
    assert chat.usage.prompt_tokens == answer["count"]
    without = http.post("/tokenize", json={"messages": messages, "add_generation_prompt": False}).json()
    assert 0 < without["count"] < answer["count"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {"model": "other", "prompt": "a"}, 404),
        ("/tokenize", {}, 400),
        ("/detokenize", {"model": "other", "tokens": [1]}, 404),
        ("/detokenize", {"tokens": [10_000_000]}, 400),
        ("/detokenize", {"tokens": [-1]}, 400),
    ],
)
def test_wrong_tokenization_requests(http: httpx.Client, path: str, body: dict[str, object], status: int) -> None:
    assert http.post(path, json=body).status_code == status
