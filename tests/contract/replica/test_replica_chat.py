"""Chat, as OpenAI's own client sees it."""

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.contract.replica.conftest import MODEL, Replica
from tests.support.running_app import running

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say something."}]


def test_a_whole_answer(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=12, temperature=0)
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.id.startswith("chatcmpl-")
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12


def test_a_stream_says_the_same_as_the_whole(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=40, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=40,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    *told, usage = chunks
    assert len({chunk.id for chunk in chunks}) == 1
    assert told[0].choices[0].delta.role == "assistant"
    assert told[0].choices[0].delta.content == ""
    assert all(chunk.choices[0].delta.role is None for chunk in told[1:])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in told) == whole.choices[0].message.content
    reasons = [chunk.choices[0].finish_reason for chunk in told]
    assert reasons == [None] * (len(told) - 1) + [whole.choices[0].finish_reason]
    assert all(chunk.usage is None for chunk in told)
    assert usage.choices == []
    assert usage.usage is not None
    assert whole.usage is not None
    assert usage.usage.completion_tokens == whole.usage.completion_tokens


def test_a_stream_tells_no_usage_unless_asked(client: OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2, stream=True)
    chunks = list(stream)
    assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_the_prompt_is_what_the_template_writes(client: OpenAI, replica: Replica) -> None:
    template = replica.model.chat_template
    assert template is not None
    text = template.render(HELLO)
    tokens = replica.model.tokenizer.encode(text, add_special_tokens=False)
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, temperature=0)
    same = client.completions.create(model=MODEL, prompt=tokens, max_tokens=8, temperature=0)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(tokens)
    assert answer.choices[0].message.content == same.choices[0].text


def test_parts_and_developer_are_the_same_as_text_and_system(client: OpenAI) -> None:
    plain = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a\nb"}],
        max_tokens=8,
        temperature=0,
    )
    parted = client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ],
        max_completion_tokens=8,
        temperature=0,
    )
    assert parted.choices[0].message.content == plain.choices[0].message.content
    assert parted.usage is not None
    assert plain.usage is not None
    assert parted.usage.prompt_tokens == plain.usage.prompt_tokens


def test_a_stop_text_ends_the_answer_and_is_left_out(client: OpenAI) -> None:
    free = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=40, temperature=0)
    text = free.choices[0].message.content or ""
    stop = text[10:13]
    texts = [stop, "§"]
    stopped = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=40, temperature=0, stop=texts)
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].message.content == text[: text.index(stop)]


@pytest.mark.parametrize("seed", [5, -5, 2**63 - 1, -(2**63)])
def test_a_seed_repeats_a_sampled_answer(client: OpenAI, seed: int) -> None:
    def once(seed: int) -> str | None:
        answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=30, temperature=1.5, seed=seed)
        return answer.choices[0].message.content

    assert once(seed) == once(seed)


def test_the_prefix_cache_is_counted_and_salted(client: OpenAI) -> None:
    long: list[ChatCompletionMessageParam] = [{"role": "user", "content": "A long question. " * 20}]

    def cached(salt: str) -> int:
        answer = client.chat.completions.create(
            model=MODEL, messages=long, max_tokens=1, extra_body={"cache_salt": salt, "priority": 2}
        )
        assert answer.usage is not None
        details = answer.usage.prompt_tokens_details
        assert details is not None
        assert details.cached_tokens is not None
        return details.cached_tokens

    assert cached("salt of this test") == 0
    assert cached("salt of this test") > 0
    assert cached("another salt") == 0


def test_a_gateway_can_name_a_public_prefix(client: OpenAI, replica: Replica) -> None:
    tokens = replica.model.tokenizer.encode("A prompt that everybody may share. " * 12, add_special_tokens=False)

    def cached(salt: str, public: str | None) -> int:
        answer = client.completions.create(
            model=MODEL,
            prompt=tokens,
            max_tokens=1,
            extra_body={"cache_salt": salt},
            extra_headers={} if public is None else {"X-Forebay-Public-Prefix-Tokens": public},
        )
        assert answer.usage is not None
        details = answer.usage.prompt_tokens_details
        assert details is not None
        return details.cached_tokens or 0

    assert cached("p1", str(len(tokens))) == 0
    assert cached("p2", str(len(tokens))) > 0
    assert cached("p3", None) == 0
    for wrong in ("-1", "many", "1" * 11):
        with pytest.raises(BadRequestError, match="X-Forebay-Public-Prefix-Tokens"):
            cached("p4", wrong)


def test_a_replica_that_does_not_trust_the_header_ignores_it(replica: Replica) -> None:
    app = create_app(replica.engine, replica.model, ReplicaSettings(served_model_name=MODEL))
    tokens = replica.model.tokenizer.encode("A prompt that somebody wants to see. " * 12, add_special_tokens=False)
    with running(app) as other, OpenAI(base_url=f"{other.url}/v1", api_key="unused", max_retries=0) as client:
        for salt in ("t1", "t2"):
            answer = client.completions.create(
                model=MODEL,
                prompt=tokens,
                max_tokens=1,
                extra_body={"cache_salt": salt},
                extra_headers={"X-Forebay-Public-Prefix-Tokens": str(len(tokens))},
            )
            assert answer.usage is not None
            assert answer.usage.prompt_tokens_details is not None
            assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_a_long_conversation_takes_the_way_through_a_thread(client: OpenAI) -> None:
    long: list[ChatCompletionMessageParam] = [{"role": "user", "content": "word " * 1000}]
    answer = client.chat.completions.create(model=MODEL, messages=long, max_tokens=2)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 1000


def test_a_model_without_a_chat_template_says_where_to_go(folder_without_template: object) -> None:
    plain = load(str(folder_without_template), folder_without_template)  # type: ignore[arg-type]
    engine = build_engine(plain, EngineSettings(kv_cache_gb=0.01, threads=1), SystemClock())
    try:
        app = create_app(engine, plain, ReplicaSettings(served_model_name=MODEL))
        with running(app) as other, OpenAI(base_url=f"{other.url}/v1", api_key="unused", max_retries=0) as client:
            with pytest.raises(BadRequestError, match="/v1/completions"):
                client.chat.completions.create(model=MODEL, messages=HELLO)
            assert client.completions.create(model=MODEL, prompt="a", max_tokens=1).choices[0].text
    finally:
        engine.close()
