"""Prompts: what a chat that is to be gone on with looks like, and what cannot be run."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.core.errors import ContextTooLong, InvalidRequest
from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.prompts import Prompt, Prompts, Rendering
from forebay.replica.dialects.dialect import ChatDialect
from forebay.replica.vocabulary import Vocabulary
from tests.support.tiny_chat_model import write_tiny_chat_model

KEEPS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
STRIPS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
DROPS = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    folder: Path = write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny")
    return load(str(folder), folder)


def prompts_of(model: ModelFiles, max_model_len: int = 8192) -> Prompts:
    return Prompts(model, Vocabulary(model), max_model_len)


def written(model: ModelFiles, template: str, messages: str, rendering: Rendering) -> Prompt:
    own = replace(model, chat_template=ChatTemplate(template, bos_token="", eos_token="<|im_end|>"))
    asked = decode(f'{{"model": "m", "messages": {messages}}}'.encode(), ChatCompletionRequest)
    plan = ChatDialect(own).plan(asked)
    return asyncio.run(prompts_of(own).of_chat(plan.chat, rendering, request_bytes=len(messages)))


def assistant(content: str) -> str:
    return f'[{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": {content}}}]'


GOING_ON = Rendering(continue_final_message=True)
BEFORE = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "content", "left"),
    [
        (KEEPS, '"so be it"', "so be it"),
        (KEEPS, '"so  "', "so  "),
        (KEEPS, '" so"', " so"),
        (KEEPS, '"im"', "im"),
        (KEEPS, '"<|im_end|>"', "<|im_end|>"),
        (KEEPS, '""', ""),
        (KEEPS, '[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]', "a\nb"),
        (STRIPS, '" so be it "', "so be it"),
    ],
)
def test_a_message_that_is_gone_on_with_ends_where_its_text_does(
    model: ModelFiles, template: str, content: str, left: str
) -> None:
    prompt = written(model, template, assistant(content), GOING_ON)
    assert prompt.text == BEFORE + left
    assert prompt.token_ids == model.tokenizer.encode(prompt.text, add_special_tokens=False)


def test_a_message_that_the_template_leaves_out_cannot_be_gone_on_with(model: ModelFiles) -> None:
    with pytest.raises(InvalidRequest) as raised:
        written(model, DROPS, assistant('"so"'), GOING_ON)
    assert raised.value.param == "continue_final_message"


def test_without_that_the_template_has_the_last_word(model: ModelFiles) -> None:
    assert written(model, KEEPS, assistant('"so"'), Rendering()).text == f"{BEFORE}so<|im_end|>\n"


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ("[[1], [2, 258]]", "prompt[1][1]"),
        ("[1, 258]", "prompt[1]"),
        ('["a", ""]', "prompt[1]"),
        ('""', "prompt"),
        ("[[]]", "prompt"),
    ],
)
def test_a_prompt_that_cannot_be_run_is_named(model: ModelFiles, prompt: str, param: str) -> None:
    asked = decode(f'{{"model": "m", "prompt": {prompt}}}'.encode(), CompletionRequest)
    with pytest.raises(InvalidRequest) as raised:
        asyncio.run(prompts_of(model).of_completion(asked, echoed=bool(asked.echo)))
    assert raised.value.param == param


def test_the_text_of_tokens_is_made_only_where_it_is_echoed(model: ModelFiles) -> None:
    def made(fields: str) -> list[Prompt]:
        asked = decode(f'{{"model": "m", "prompt": [[32], [33]]{fields}}}'.encode(), CompletionRequest)
        return asyncio.run(prompts_of(model).of_completion(asked, echoed=bool(asked.echo)))

    assert made("") == [Prompt("", [32]), Prompt("", [33])]
    assert made(', "echo": true') == [Prompt("A", [32]), Prompt("B", [33])]


def test_a_text_beyond_the_window_is_refused_unread(model: ModelFiles) -> None:
    asked = decode(f'{{"model": "m", "prompt": "{"x" * 2000}"}}'.encode(), CompletionRequest)
    with pytest.raises(ContextTooLong):
        asyncio.run(prompts_of(model, 64).of_completion(asked, echoed=bool(asked.echo)))
