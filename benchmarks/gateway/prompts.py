"""Chats whose prompts have about a given number of tokens, all different, of natural text."""

import json
import random
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

from benchmarks.gateway.gateways.base import ALIAS

BODIES = 400
"""Different requests of one kind; they are sent in turn."""
WHOLE_TOKENS = 16
"""What a whole answer is asked to have."""


def chat_bodies(
    encode: Callable[[str], Sequence[int]],
    *,
    count: int,
    prompt_tokens: int,
    output_tokens: int,
    stream: bool,
    seed: int,
) -> list[str]:
    """The JSON texts of `count` requests. The chat template's own tokens come on top of `prompt_tokens`."""
    chance = random.Random(seed)
    words = [*dict.fromkeys(word for name in sorted(topics) for word in topics[name].split() if len(word) < 20)]
    length = {word: len(encode(" " + word)) for word in words}
    extra = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    bodies: list[str] = []
    for _ in range(count):
        text: list[str] = []
        left = prompt_tokens
        while left > 0:
            text.append(chance.choice(words))
            left -= length[text[-1]]
        messages = [{"role": "user", "content": " ".join(text)}]
        bodies.append(json.dumps({"model": ALIAS, "messages": messages, "max_tokens": output_tokens, **extra}))
    return bodies
