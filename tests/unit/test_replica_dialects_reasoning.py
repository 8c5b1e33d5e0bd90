"""Reasoning is parted from the answer, and a grammar leaves room for it."""

from collections.abc import Sequence

import pytest

from forebay.core.errors import InvalidRequest
from forebay.engine.request import Grammar
from forebay.replica.dialects.pieces import Piece, PlainParser, ReasoningPiece, TextPiece
from forebay.replica.dialects.reasoning import ReasoningParser, reasoning_after
from tests.support.chat_dialects import HERMES, OPENED, PLAIN, THINK_MARKS, matches, model_with, plan, prompt
from tests.unit.test_replica_dialects_calls import read

THOUGHT = ReasoningPiece("Let me see.")
ANSWER = TextPiece("It is 4.\n")


@pytest.mark.parametrize(
    ("begun", "text", "expected"),
    [
        (False, "<think>\nLet me see.\n</think>\n\nIt is 4.\n", [THOUGHT, ANSWER]),
        (True, "Let me see.</think>It is 4.\n", [THOUGHT, ANSWER]),
        (False, "\n<think>Let me see.", [THOUGHT]),
        (True, "Let me see.</thi", [ReasoningPiece("Let me see.</thi")]),
        (False, "<think>\n\n</think>\n\nIt is 4.\n", [ANSWER]),
        (False, "It is 4.\n", [ANSWER]),
        (False, " <thin", [TextPiece(" <thin")]),
        (False, "So <think>x</think>", [TextPiece("So <think>x</think>")]),
        (True, "a < b\n and </b> c </think> \n", [ReasoningPiece("a < b\n and </b> c")]),
        (True, "", []),
    ],
)
def test_an_output(begun: bool, text: str, expected: list[Piece]) -> None:
    for cuts in ((), range(1, len(text))):
        assert read(ReasoningParser(PlainParser(), begun=begun), text, cuts) == expected


def test_reasoning_comes_as_it_is_written() -> None:
    reading = ReasoningParser(PlainParser(), begun=True)
    assert reading.push("\nLet") == [ReasoningPiece("Let")]
    assert reading.push(" me see.\n") == [ReasoningPiece(" me see.")]
    assert reading.push("Yes.</") == [ReasoningPiece("\nYes.")]
    assert reading.push("think>") == []
    assert reading.push("\n\n4") == [TextPiece("4")]


@pytest.mark.parametrize(
    ("text", "continued", "expected"),
    [
        ("<|im_start|>assistant\n<think>\n", "", "begun"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "", "over"),
        ("what is <think>?<|im_end|>\n<|im_start|>assistant\n", "", "possible"),
        ("<|im_start|>assistant\n<think>\nSo", "<think>\nSo", "begun"),
        ("<|im_start|>assistant\n4 is", "4 is", "over"),
        ("<|im_start|>assistant\n<think>a</think>\n4 is", "<think>a</think>\n4 is", "over"),
    ],
)
def test_the_prompt_says_whether_reasoning_comes(text: str, continued: str, expected: str) -> None:
    assert reasoning_after(text, continued) == expected


@pytest.mark.parametrize(
    ("template", "tokens", "fields", "expected"),
    [
        (OPENED, THINK_MARKS, {}, [ReasoningPiece("a"), TextPiece("b")]),
        (OPENED, (), {}, [ReasoningPiece("a"), TextPiece("b")]),
        (HERMES, (), {"reasoning_effort": "none"}, [TextPiece("a</think>b")]),
        (PLAIN, (), {}, [TextPiece("a</think>b")]),
        (PLAIN, THINK_MARKS, {}, [TextPiece("a</think>b")]),
    ],
)
def test_a_model_is_read_by_what_it_was_taught(
    template: str, tokens: Sequence[str], fields: dict[str, object], expected: list[Piece]
) -> None:
    model = model_with(template, tokens=tokens)
    if template is OPENED and not tokens:
        model = model_with(OPENED + "{# </think> #}")
    planned = plan(model, **fields)
    assert read(planned.parser(prompt(model, planned)), "a</think>b") == expected


def test_special_marks_are_kept_in_the_text() -> None:
    assert plan(model_with(PLAIN, special=THINK_MARKS)).skip_special_tokens is False
    assert plan(model_with(PLAIN, tokens=THINK_MARKS)).skip_special_tokens is True
    assert plan(model_with(PLAIN)).skip_special_tokens is True


GRAMMARS: list[tuple[dict[str, object], str, str]] = [
    ({"response_format": {"type": "json_object"}}, '{"a": [1]}', "[1]"),
    ({"structured_outputs": {"json": {"enum": ["x/y"]}}}, '"x/y"', '"x"'),
    ({"structured_outputs": {"regex": "[a-c/]+\n"}}, "a/b\n", "d"),
    ({"structured_outputs": {"choice": ["yes / no", 'né"x', "a\nb"]}}, 'né"x', "no"),
    ({"structured_outputs": {"grammar": 'start: "a" b\nb: /[0-9]/ // c }'}}, "a1", "a"),
]


@pytest.mark.parametrize(("fields", "right", "wrong"), GRAMMARS)
@pytest.mark.parametrize("kind", ["tokens", "special", "text"])
def test_reasoning_may_come_before_a_form_or_not(kind: str, fields: dict[str, object], right: str, wrong: str) -> None:
    model = model_with(HERMES) if kind == "text" else model_with(HERMES, **{kind: THINK_MARKS})
    planned = plan(model, **fields)
    grammar = planned.grammar_for(prompt(model, planned))
    assert grammar is not None
    for before in ("", "<think>\nhm {} </b\n</think>\n\n"):
        assert matches(model, grammar, before + right)
        assert not matches(model, grammar, before + wrong)
    assert not matches(model, grammar, f"<think>{right}")


@pytest.mark.parametrize(("fields", "right", "wrong"), GRAMMARS)
def test_after_an_opened_mark_that_is_no_token_the_form_waits_for_the_other(
    fields: dict[str, object], right: str, wrong: str
) -> None:
    model = model_with(OPENED + "{# </think> #}")
    planned = plan(model, **fields)
    grammar = planned.grammar_for(prompt(model, planned))
    assert grammar is not None
    assert matches(model, grammar, f"hm {{\n</think>\n{right}")
    assert not matches(model, grammar, f"hm {{\n</think>\n{wrong}")
    assert not matches(model, grammar, right)


def test_after_an_opened_mark_the_form_begins_with_the_token_that_ends_it() -> None:
    model = model_with(OPENED, tokens=THINK_MARKS)
    planned = plan(model, response_format={"type": "json_object"})
    end = model.tokenizer.token_id("</think>")
    assert planned.grammar_for(prompt(model, planned)) == Grammar("json_object", after_token_id=end)


def test_without_reasoning_the_form_begins_at_once() -> None:
    model = model_with(HERMES, tokens=THINK_MARKS)
    planned = plan(model, response_format={"type": "json_object"}, reasoning_effort="none")
    assert planned.grammar_for(prompt(model, planned)) == Grammar("json_object")
    plain = model_with(PLAIN)
    planned = plan(plain, response_format={"type": "json_object"})
    assert planned.grammar_for(prompt(plain, planned)) == Grammar("json_object")
    assert plan(plain).grammar_for("") is None


def test_a_lark_text_that_looks_like_gbnf_is_joined_with_reasoning() -> None:
    model = model_with(HERMES, tokens=THINK_MARKS)
    grammar = plan(model, structured_outputs={"grammar": 'start: "a ::= b"'}).grammar_for("")
    assert grammar is not None
    assert 'start: "a ::= b"' in grammar.source


def test_gbnf_cannot_be_joined_with_reasoning() -> None:
    model = model_with(HERMES, tokens=THINK_MARKS)
    fields: dict[str, object] = {"structured_outputs": {"grammar": 'root ::= "a"'}}
    with pytest.raises(InvalidRequest, match="GBNF"):
        plan(model, **fields).grammar_for("")
    quiet = plan(model, **fields, reasoning_effort="none")
    assert quiet.grammar_for(prompt(model, quiet)) == Grammar(
        "lark", 'root ::= "a"', param="structured_outputs.grammar"
    )
