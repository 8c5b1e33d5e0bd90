"""Chat templates of the families whose tool calls are known, written small, and models that have them."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from llguidance import LLMatcher, LLTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from forebay.api.chat import ChatCompletionRequest
from forebay.api.decoding import decode
from forebay.engine.grammar.sources import library_source
from forebay.engine.request import Grammar
from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from forebay.replica.dialects.dialect import ChatDialect, ChatPlan

PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES = (
    "{% if tools %}<|im_start|>system\n<tools>{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools>\n"
    "Call with <tool_call></tool_call>.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for call in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
OPENED = PLAIN.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
"""Opens the reasoning itself, as DeepSeek's distilled models do."""
LLAMA = (
    "{% if tools is not defined %}{% set tools = none %}{% endif %}"
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% if tools is not none and loop.first %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for call in m.tool_calls or [] %}{% if loop.index == 2 %}{{ raise_exception('one call at a time') }}{% endif %}"
    '{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}{% endfor %}'
    "{{ m.content }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
CALL_MARKS = ("<tool_call>", "</tool_call>")
THINK_MARKS = ("<think>", "</think>")
PYTHON_TAG = "<|python_tag|>"


def model_with(template: str | None, *, tokens: Sequence[str] = (), special: Sequence[str] = ()) -> ModelFiles:
    """A model without weights. Every byte is a token; `tokens` and `special` (left out of plain text) are more."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_end|>", *special])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in tokens])
    return ModelFiles(
        name="made",
        path=Path("made"),
        context_window=4096,
        tokenizer=ModelTokenizer(tokenizer),
        chat_template=None if template is None else ChatTemplate(template, bos_token="", eos_token="<|im_end|>"),
        eos_token_ids=frozenset({256}),
    )


def tool(name: str, parameters: dict[str, Any] | None = None, **more: object) -> dict[str, Any]:
    function = {"name": name, **more} | ({} if parameters is None else {"parameters": parameters})
    return {"type": "function", "function": function}


def request(**fields: object) -> ChatCompletionRequest:
    """As it is read from the wire; the messages are a greeting where none are given."""
    body = {"model": "made", "messages": [{"role": "user", "content": "Hello"}], **fields}
    return decode(json.dumps(body).encode(), ChatCompletionRequest)


def plan(model: ModelFiles, **fields: object) -> ChatPlan:
    return ChatDialect(model).plan(request(**fields))


def prompt(model: ModelFiles, planned: ChatPlan) -> str:
    assert model.chat_template is not None
    return model.chat_template.render(planned.chat.messages, **planned.chat.variables)


def matches(model: ModelFiles, grammar: Grammar, text: str) -> bool:
    """Whether `grammar` takes all of `text`, cut into the model's tokens, and lets it end there."""
    matcher = LLMatcher(_library_tokenizer(model.tokenizer), library_source(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = model.tokenizer.encode(text, add_special_tokens=False)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@lru_cache
def _library_tokenizer(tokenizer: ModelTokenizer) -> LLTokenizer:
    return LLTokenizer(tokenizer.to_json(), n_vocab=tokenizer.vocab_size, eos_token=256)
