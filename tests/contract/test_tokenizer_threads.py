"""A long text is cut into tokens, and put together again, beside everything else that its process does."""

import threading
import time
from collections.abc import Callable

from forebay.modelfiles.model import ModelFiles

TEXT = "The quick brown fox jumps over the lazy dog, 12 times. " * 20_000


def turns_beside(work: Callable[[], object]) -> int:
    """How often this thread came to its turn while another did `work`."""
    worker = threading.Thread(target=work)
    worker.start()
    turns = 0
    while worker.is_alive():
        time.sleep(0.001)
        turns += 1
    return turns


def test_other_threads_go_on_while_a_long_text_is_encoded(smollm: ModelFiles) -> None:
    assert turns_beside(lambda: smollm.tokenizer.encode(TEXT, add_special_tokens=False)) > 50


def test_other_threads_go_on_while_many_tokens_are_decoded(smollm: ModelFiles) -> None:
    tokens = list(range(1000, 40_000)) * 40
    assert turns_beside(lambda: smollm.tokenizer.decode(tokens)) > 20
