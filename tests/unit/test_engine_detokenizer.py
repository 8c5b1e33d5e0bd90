"""Text as it comes out, with one token a byte: the hardest case for characters and stop strings."""

from collections.abc import Sequence

import pytest

from forebay.engine.detokenizer import Detokenizer


def decode_bytes(token_ids: Sequence[int]) -> str:
    return bytes(token_ids).decode("utf-8", errors="replace")


def pieces(text: bytes, stop: Sequence[str] = ()) -> tuple[list[str], bool]:
    detokenizer = Detokenizer(decode_bytes, stop)
    out: list[str] = []
    for byte in text:
        out.append(detokenizer.push(byte))
        if detokenizer.stopped_at is not None:
            break
    return [*out, detokenizer.flush()], detokenizer.stopped_at is not None


@pytest.mark.parametrize("text", ["plain", "naïve café", "日本語", "🙂👩‍👩‍👧 mixed ☃", "\n\t x"])
def test_the_pieces_join_to_the_text_and_never_show_half_a_character(text: str):
    out, stopped = pieces(text.encode())
    assert "".join(out) == text
    assert not any("\ufffd" in piece for piece in out)
    assert not stopped


def test_bytes_that_are_no_character_come_out_in_the_end():
    out, _ = pieces(b"ab\xff\xfe\xfd\xfc\xfbcd")
    assert "".join(out).startswith("ab")
    assert "".join(out).endswith("cd")
    assert "\ufffd" in "".join(out)


def test_text_ends_before_the_stop_string_that_comes_first():
    out, stopped = pieces(b"one two three", ["three", "two", "w"])
    assert stopped
    assert "".join(out) == "one t"


def test_what_may_begin_a_stop_string_is_held_back_until_it_is_decided():
    out, stopped = pieces(b"ab<sto>cd", ["<stop>"])
    assert not stopped
    assert out[2:6] == ["", "", "", ""]
    assert "".join(out) == "ab<sto>cd"


def test_a_begun_stop_string_is_text_if_the_generation_ends_there():
    out, _ = pieces(b"ab<st", ["<stop>"])
    assert "".join(out) == "ab<st"


def test_a_stop_string_of_many_bytes_is_seen_across_tokens():
    out, stopped = pieces("say 终止 now".encode(), ["终止"])
    assert stopped
    assert "".join(out) == "say "


def test_overlapping_beginnings_are_tried_again():
    out, stopped = pieces(b"xaab!", ["ab"])
    assert stopped
    assert "".join(out) == "xa"


def test_a_stop_string_is_told_and_can_be_kept():
    detokenizer = Detokenizer(decode_bytes, ("ld", "wor"), keep_stop=True)
    assert "".join(map(detokenizer.push, b"hello world")) == "hello wor"
    assert detokenizer.stopped_at == "wor"


def test_a_stop_string_that_comes_too_early_is_text():
    detokenizer = Detokenizer(decode_bytes, ("l",))
    text = "".join(detokenizer.push(byte, may_stop=index >= 4) for index, byte in enumerate(b"hello hello"))
    assert text == "hello he"
