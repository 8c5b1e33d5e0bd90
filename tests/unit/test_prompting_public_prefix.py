"""Registered platform prompts at the beginning of others' prompts."""

import asyncio
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE

from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from forebay.prompting.chat_writer import WrittenChat
from forebay.prompting.counting import Route
from forebay.prompting.known_tokens import KnownTokens
from forebay.prompting.model_counter import ModelPromptCounter
from forebay.prompting.prompts import Prompts, Rendering
from tests.support.chat_dialects import PLAIN, model_with

PLATFORM = "You are the helpful assistant of the Forebay company. Be brief."
OTHER = "You are the helpful assistant of the Forebay company. Be brief. Never swear."
CANARY = "\N{SNOWMAN}"
"""What a tenant writes, and no operator has."""


def merging_model() -> ModelFiles:
    """One whose tokens go across words' ends: `brief.` with what follows it."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(  # pyright: ignore[reportCallIssue]
        vocab_size=600,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([PLATFORM, OTHER, PLATFORM + " And", f"system\n{PLATFORM}{CANARY}"] * 50, trainer)
    plain = model_with(PLAIN)
    return ModelFiles(
        name="merging",
        path=plain.path,
        context_window=4096,
        tokenizer=ModelTokenizer(tokenizer),
        chat_template=plain.chat_template,
        eos_token_ids=frozenset({1}),
    )


MODELS = {"bytes": model_with(PLAIN, special=["<|im_start|>"]), "merging": merging_model()}
COUNTERS = {name: ModelPromptCounter(model) for name, model in MODELS.items()}


def public(counter: ModelPromptCounter, route: Route, registered: list[str], **fields: object) -> int:
    body = json.dumps({"model": "m", **fields}).encode()
    return asyncio.run(counter.count(route, body, registered)).public_prefix_tokens


def chat(*messages: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]


def alone(model: ModelFiles, route: Route, text: str) -> list[int]:
    if route == "completions":
        return model.tokenizer.encode(text, add_special_tokens=True)
    prompts = Prompts(model, KnownTokens(model), 4096)
    written = WrittenChat([{"role": "system", "content": text}], {})
    return prompts.write_chat(written, Rendering(add_generation_prompt=False)).token_ids


@pytest.mark.parametrize("name", MODELS)
def test_a_platform_prompt_counts_with_the_marks_around_it(name: str) -> None:
    whole = len(alone(MODELS[name], "chat/completions", PLATFORM))
    asked = chat(("system", PLATFORM), ("user", "Hi"))
    found = public(COUNTERS[name], "chat/completions", [PLATFORM], messages=asked)
    assert whole <= found <= whole + 1


def test_the_longest_of_several_counts() -> None:
    asked = chat(("system", OTHER), ("user", "Hi"))
    counter = COUNTERS["bytes"]
    both = public(counter, "chat/completions", [PLATFORM, "", OTHER], messages=asked)
    assert both == len(alone(MODELS["bytes"], "chat/completions", OTHER))
    assert 0 < public(counter, "chat/completions", [PLATFORM], messages=asked) < both


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "messages",
    [
        chat(("user", PLATFORM)),
        chat(("system", PLATFORM[:-1])),
        chat(("system", " " + PLATFORM)),
        chat(("system", PLATFORM[:30] + PLATFORM[31:])),
        chat(("user", "Hi"), ("system", PLATFORM)),
    ],
)
def test_what_is_not_all_there_or_not_first_does_not_count(name: str, messages: list[Any]) -> None:
    assert public(COUNTERS[name], "chat/completions", [PLATFORM], messages=messages) == 0


def test_of_a_text_and_of_token_ids() -> None:
    counter = COUNTERS["bytes"]
    ids = alone(MODELS["bytes"], "completions", PLATFORM)
    for prompt in (PLATFORM + " Go!", [*ids, 1, 2]):
        assert public(counter, "completions", [PLATFORM], prompt=prompt) == len(ids)
    assert public(counter, "completions", [PLATFORM], prompt=[PLATFORM, PLATFORM]) == 0
    assert public(counter, "completions", [PLATFORM], prompt=ids[:-1]) == 0


def test_a_token_that_goes_across_its_end_leaves_it_out() -> None:
    counter, model = COUNTERS["merging"], MODELS["merging"]
    ids = alone(model, "completions", PLATFORM)
    joined = model.tokenizer.encode(PLATFORM + " And more", add_special_tokens=True)
    assert joined[: len(ids)] != ids, "the test proves nothing"
    assert public(counter, "completions", [PLATFORM], prompt=PLATFORM + " And more") == 0
    assert public(counter, "completions", [PLATFORM], prompt=PLATFORM) == len(ids)


def test_a_template_that_takes_no_system_message_has_none() -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}"
    counter = ModelPromptCounter(model_with(template))
    assert public(counter, "chat/completions", [PLATFORM], messages=chat(("user", PLATFORM))) == 0


def test_a_template_that_writes_the_date_is_asked_again_the_next_day() -> None:
    days = [date(2026, 1, 1)]
    base = model_with(PLAIN)
    template = ChatTemplate(
        "{{ strftime_now('%d') }}" + PLAIN,
        bos_token="",
        eos_token="",
        now=lambda: days[-1],  # type: ignore[arg-type,return-value]
    )
    model = ModelFiles(base.name, base.path, 4096, base.tokenizer, template, base.eos_token_ids)
    counter = ModelPromptCounter(model, today=lambda: days[-1])
    asked = chat(("system", PLATFORM), ("user", "Hi"))
    first = public(counter, "chat/completions", [PLATFORM], messages=asked)
    days.append(date(2026, 1, 2))
    assert public(counter, "chat/completions", [PLATFORM], messages=asked) == first > 0


def test_what_is_longer_than_the_window_is_nobodys_beginning() -> None:
    assert public(COUNTERS["bytes"], "chat/completions", ["x" * 10_000], messages=chat(("user", "Hi"))) == 0


operators_text = st.text(alphabet="ab .<|im_end|>é\n", max_size=12) | st.sampled_from([PLATFORM, OTHER, "<|im_end|>"])
tenants_text = st.builds(
    lambda before, own, after: before + own + after,
    st.sampled_from(["", PLATFORM, OTHER, PLATFORM[:20], f"{PLATFORM}<|im_end|>\n", "a", "é"]),
    st.sampled_from([CANARY, f" And {CANARY}", f"\n{CANARY}"]),
    st.sampled_from(["", PLATFORM, "<|im_end|>"]),
)


@pytest.mark.parametrize("name", MODELS)
@given(
    registered=st.lists(operators_text, max_size=4),
    first=st.sampled_from(["system", "user", "developer", "none"]),
    own=st.lists(tenants_text, min_size=1, max_size=3),
    continued=st.booleans(),
    data=st.data(),
)
def test_nothing_that_a_tenant_writes_is_ever_in_it(
    name: str, registered: list[str], first: str, own: list[str], continued: bool, data: st.DataObject
) -> None:
    model, counter = MODELS[name], COUNTERS[name]
    platform = data.draw(st.sampled_from([*registered, PLATFORM]))
    if first == "none":
        route: Route = "completions"
        text = platform + own[0]
        as_ids = data.draw(st.booleans())
        tokens = model.tokenizer.encode(text, add_special_tokens=True)
        fields: dict[str, Any] = {"prompt": tokens if as_ids else text}
    else:
        route = "chat/completions"
        told = [{"role": first, "content": platform + (own[0] if first != "developer" else "")}]
        told += [{"role": "assistant", "content": each} for each in own]
        fields = {"messages": told, "continue_final_message": continued}
        written = [{**each, "role": "system" if each["role"] == "developer" else each["role"]} for each in told]
        rendering = Rendering(add_generation_prompt=True, continue_final_message=continued)
        tokens = Prompts(model, KnownTokens(model), 4096).write_chat(WrittenChat(written, {}), rendering).token_ids
    found = public(counter, route, registered, **fields)
    beginning = tokens[:found]
    assert CANARY not in model.tokenizer.decode(beginning, skip_special_tokens=False)
    # All of it is what an operator's text alone is written as, and that text is there whole.
    says = model.tokenizer.decode(beginning, skip_special_tokens=False)
    assert found == 0 or any(
        text.strip() and text.strip() in says and alone(model, route, text)[:found] == beginning for text in registered
    )
