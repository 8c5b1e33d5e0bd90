"""Log-probabilities in the forms of answers."""

import codecs
from pathlib import Path

import msgspec
import pytest

from forebay.engine.request import TokenLogprob
from forebay.modelfiles.loading import load
from forebay.replica.logprobs import CompletionLogprobsWriter, chat_logprobs, joined, prompt_logprobs, token_name
from forebay.replica.vocabulary import Vocabulary
from tests.support.tiny_chat_model import write_tiny_chat_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def vocabulary(model: Path) -> Vocabulary:
    return Vocabulary(load(str(model), model))


def ids(vocabulary: Vocabulary, text: str) -> list[int]:
    """One token for each byte."""
    found = {vocabulary.bytes_of(token_id): token_id for token_id in range(vocabulary.size)}
    return [found[bytes([each])] for each in text.encode()]


def tokens(vocabulary: Vocabulary, text: str) -> list[TokenLogprob]:
    """Each with itself and a `z` as the likeliest."""
    (z,) = ids(vocabulary, "z")
    return [TokenLogprob(each, -1.0, ((z, -0.5), (each, -1.0))) for each in ids(vocabulary, text)]


def test_chat_tells_text_and_bytes_of_every_token(vocabulary: Vocabulary) -> None:
    told = msgspec.to_builtins(chat_logprobs(tokens(vocabulary, "a€"), vocabulary))
    assert told["refusal"] is None
    assert [each["token"] for each in told["content"]] == ["a", "\ufffd", "\ufffd", "\ufffd"]
    assert [each["bytes"] for each in told["content"]] == [[97], [0xE2], [0x82], [0xAC]]
    assert told["content"][0]["logprob"] == -1.0
    assert told["content"][0]["top_logprobs"] == [
        {"token": "z", "logprob": -0.5, "bytes": [122]},
        {"token": "a", "logprob": -1.0, "bytes": [97]},
    ]


def test_a_piece_of_a_character_is_named_by_its_bytes(vocabulary: Vocabulary) -> None:
    assert token_name("a€".encode()) == "a€"
    assert token_name(b"\xe2\x82") == "bytes:\\xe2\\x82"
    writer = CompletionLogprobsWriter(1, vocabulary)
    told = writer.of_output(tokens(vocabulary, "€"))
    assert told.tokens == ["bytes:\\xe2", "bytes:\\x82", "bytes:\\xac"]


def test_offsets_count_characters_through_all_pieces(vocabulary: Vocabulary) -> None:
    writer = CompletionLogprobsWriter(0, vocabulary)
    text = "a€b"
    told = joined([writer.of_output([each]) for each in tokens(vocabulary, text)])
    assert told.text_offset == [0, 1, 1, 1, 2]
    assert told.top_logprobs is None
    assert [text[at] for at in (told.text_offset[0], told.text_offset[-1])] == ["a", "b"]


def test_a_special_token_takes_room_only_where_it_is_in_the_text(vocabulary: Vocabulary) -> None:
    special = next(each for each in range(vocabulary.size) if vocabulary.is_hidden(each))
    hidden = TokenLogprob(special, -1.0, ())
    a, euro, b = (tokens(vocabulary, each) for each in ("a", "€", "b"))
    told = CompletionLogprobsWriter(0, vocabulary).of_output([*a, hidden, *euro[:1], hidden, *euro[1:], *b])
    assert told.text_offset == [0, 1, 1, 1, 1, 1, 2]
    shown = CompletionLogprobsWriter(0, vocabulary, skip_special_tokens=False).of_output([*a, hidden, *b])
    assert shown.text_offset == [0, 1, 1 + len(vocabulary.bytes_of(special).decode())]


def test_the_likeliest_are_as_many_as_asked_for_and_the_token_itself(vocabulary: Vocabulary) -> None:
    told = CompletionLogprobsWriter(1, vocabulary).of_output(tokens(vocabulary, "az"))
    assert told.top_logprobs == [{"a": -1.0, "z": -0.5}, {"z": -1.0}]
    assert told.token_logprobs == [-1.0, -1.0]


def test_an_echoed_prompt_comes_before_and_counts(vocabulary: Vocabulary) -> None:
    writer = CompletionLogprobsWriter(1, vocabulary)
    first, *rest = tokens(vocabulary, "é!")
    told = joined([writer.of_prompt("é!", first.token_id, rest), writer.of_output(tokens(vocabulary, "b"))])
    assert told.tokens == ["bytes:\\xc3", "bytes:\\xa9", "!", "b"]
    assert told.token_logprobs == [None, -1.0, -1.0, -1.0]
    assert told.text_offset == [0, 0, 1, 2]
    assert told.top_logprobs is not None
    assert told.top_logprobs[0] is None


def test_a_token_that_is_not_in_the_echoed_text_takes_no_room(vocabulary: Vocabulary) -> None:
    begin, *rest = tokens(vocabulary, "ö ab")
    told = CompletionLogprobsWriter(0, vocabulary).of_prompt("ab", begin.token_id, rest[1:])
    assert told.text_offset == [0, 0, 0, 1]


def test_prompt_logprobs_have_vllms_form(vocabulary: Vocabulary) -> None:
    (z,) = ids(vocabulary, "z")
    (a,) = ids(vocabulary, "a")
    told = prompt_logprobs([TokenLogprob(a, -3.0, ((z, -0.5),)), *tokens(vocabulary, "z")], 1, vocabulary)
    assert told == [
        None,
        {
            str(a): {"logprob": -3.0, "rank": None, "decoded_token": "a"},
            str(z): {"logprob": -0.5, "rank": 1, "decoded_token": "z"},
        },
        {str(z): {"logprob": -1.0, "rank": 2, "decoded_token": "z"}},
    ]


def test_a_token_s_bytes_are_those_of_its_text(vocabulary: Vocabulary) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    text = "Grüße, 世界"
    assert "".join(decoder.decode(vocabulary.bytes_of(each)) for each in ids(vocabulary, text)) == text
