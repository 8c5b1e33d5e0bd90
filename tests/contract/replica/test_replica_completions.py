"""Text completions, as OpenAI's own client sees them."""

import pytest
from openai import BadRequestError, OpenAI

from tests.contract.replica.conftest import MODEL, Replica


def test_a_whole_answer_is_sixteen_tokens_long(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", temperature=0)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_a_stream_says_the_same_as_the_whole(client: OpenAI) -> None:
    whole = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=30, temperature=0)
    *told, usage = client.completions.create(
        model=MODEL,
        prompt="Once upon",
        max_tokens=30,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert "".join(chunk.choices[0].text for chunk in told) == whole.choices[0].text
    assert told[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert usage.choices == []
    assert usage.usage is not None
    assert whole.usage is not None
    assert usage.usage.completion_tokens == whole.usage.completion_tokens


def test_a_prompt_is_text_or_tokens(client: OpenAI, replica: Replica) -> None:
    tokens = replica.model.tokenizer.encode("Once upon", add_special_tokens=True)

    def say(prompt: str | list[str] | list[int] | list[list[int]]) -> str:
        return client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0).choices[0].text

    assert say("Once upon") == say(["Once upon"]) == say(tokens) == say([tokens])


def test_tokens_that_the_model_does_not_know(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as raised:
        client.completions.create(model=MODEL, prompt=[1, 2, 10_000_000])
    assert raised.value.param == "prompt[2]"


def test_an_empty_prompt_is_refused_where_the_model_adds_nothing(client: OpenAI, replica: Replica) -> None:
    if replica.model.tokenizer.encode("", add_special_tokens=True):
        pytest.skip("this model begins every text with a token of its own")
    with pytest.raises(BadRequestError) as raised:
        client.completions.create(model=MODEL, prompt="")
    assert raised.value.param == "prompt"


@pytest.mark.parametrize(("room", "made"), [(4, 4), (1, 1), (16, 16), (20, 16)])
def test_the_default_of_tokens_is_what_the_window_leaves(
    client: OpenAI, replica: Replica, room: int, made: int
) -> None:
    prompts = [[5] * (replica.engine.max_model_len - room), [5]]
    answer = client.completions.create(model=MODEL, prompt=prompts, temperature=0, extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert answer.usage.completion_tokens == made + 16


def test_a_prompt_that_fills_the_window_is_not_told_of_a_field_that_it_has_not(
    client: OpenAI, replica: Replica
) -> None:
    with pytest.raises(BadRequestError) as raised:
        client.completions.create(model=MODEL, prompt=[5] * replica.engine.max_model_len)
    assert raised.value.code == "context_length_exceeded"
    assert raised.value.param != "max_tokens"
    assert "max_tokens 16" not in str(raised.value)


def test_offsets_leave_out_hidden_special_tokens(client: OpenAI, replica: Replica) -> None:
    grammar = {"structured_outputs": {"grammar": 'start: "ab" <|im_start|> "cd"'}}
    for skip, shown in ((True, ""), (False, "<|im_start|>")):
        answer = client.completions.create(
            model=MODEL, prompt="a", logprobs=1, extra_body=grammar | {"skip_special_tokens": skip}
        )
        (choice,) = answer.choices
        assert choice.text == f"ab{shown}cd"
        assert choice.logprobs is not None
        at, tokens = choice.logprobs.text_offset or [], choice.logprobs.tokens or []
        hidden = tokens.index("<|im_start|>")
        assert at[hidden] == 2
        assert at[hidden + 1] == 2 + len(shown)
