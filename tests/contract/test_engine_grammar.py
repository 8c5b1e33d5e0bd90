"""Grammars compiled with a real tokenizer, and followed token by token."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from llguidance import LLMatcher

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.compiler import MOST_GRAMMARS, GrammarCompiler
from forebay.engine.grammar.matcher import GrammarError
from forebay.engine.grammar.schema_blame import blame
from forebay.engine.request import Grammar
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from tests.support.grammar_walk import Walker, allowed, follows, matches

PADDED = 49_152 + 100
"""A model's logits may be wider than its tokenizer."""


@pytest.fixture(scope="module")
def compiler(smollm: ModelFiles) -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(smollm.tokenizer, PADDED, smollm.eos_token_ids)
    yield made
    made.close()


@pytest.fixture(scope="module")
def walker(smollm: ModelFiles) -> Walker:
    return Walker(smollm.tokenizer, smollm.eos_token_ids)


def choice(texts: list[str]) -> Grammar:
    return Grammar("choice", json.dumps(texts))


def lark(source: str) -> Grammar:
    return Grammar("lark", source)


CALL = 'start: "<tool_call>\\n" call "\\n</tool_call>"\ncall: %json {"type": "object", "required": ["name"], '
CALL += '"properties": {"name": {"const": "f"}}, "additionalProperties": false} // a call\n'


@pytest.mark.parametrize(
    ("grammar", "matching", "others"),
    [
        (Grammar("json_object"), ['{"a": [1, null, {"b": -1.5e3}]}', "{}"], ["[]", "1", '{"a":1}', '{"a": 1', " {}"]),
        (Grammar("json_schema", '{"type": "array", "items": {"type": "integer"}}'), ["[]", "[1, 2]"], ["[1,2]", "[a]"]),
        (Grammar("json_schema", "true"), ["1", '"a"', "[]"], ["a", ""]),
        (Grammar("regex", "[a-c]+x?"), ["abc", "ax"], ["", "xa", "abcxx"]),
        (Grammar("regex", "^(yes|no)$"), ["yes", "no"], ["maybe", "yesno"]),
        (choice(["yes", "yes please", "né/\u2028\x7f🎉\n", ""]), ["yes", "yes please", "né/\u2028\x7f🎉\n", ""], ["y"]),
        (choice(["a.c", "(", "[x]", "\\d"]), ["a.c", "(", "[x]", "\\d"], ["abc", "x", "1"]),
        (lark('start: "a" b+\nb: /[0-9]/ | "(" b ")"'), ["a1", "a(2)3"], ["a", "a()", "1"]),
        (lark('root ::= "x" digits | "y"\ndigits ::= [0-9]+'), ["x12", "y"], ["x", "z"]),
        (lark(CALL), ['<tool_call>\n{"name": "f"}\n</tool_call>'], ['<tool_call>\n{"name": "g"}\n</tool_call>', ""]),
        (lark('start: "%json {" a // %json {\na: /%json \\{/ | "#"'), ["%json {%json {", "%json {#"], ["%json {"]),
    ],
)  # fmt: skip
def test_each_kind_allows_its_texts_and_no_others(
    grammar: Grammar, matching: list[str], others: list[str], compiler: GrammarCompiler, walker: Walker
) -> None:
    compiled = compiler.compile(grammar)
    assert [text for text in matching if not matches(compiled, walker, text)] == []
    assert [text for text in others if matches(compiled, walker, text)] == []


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        (Grammar("json_schema", "{nope"), "is not JSON: Expecting property name"),
        (Grammar("json_schema", '{"minimum": NaN}'), "NaN is no number in JSON"),
        (Grammar("json_schema", "3"), "a schema is an object, true or false"),
        (Grammar("json_schema", "[" * 100_000), "nested more than 100 deep"),
        (Grammar("json_schema", '{"items":' * 60_000), "the grammar has more than"),
        (Grammar("json_schema", '{"properties": {"a/b": {"items": {"not": {}}}}}'), "at #/properties/a~1b/items"),
        (Grammar("json_schema", '{"properties": {"a": false}, "type": "object", "required": ["a"]}'),
         "required property 'a' is unsatisfiable"),
        (Grammar("regex", "[^\\s\\S]"), "no text matches it"),
        (Grammar("regex", "a[^\\s\\S]"), "no text matches it"),
        (lark("start: foo\nfoo: foo"), "no text matches it"),
        (lark('start: "a" | "b" %json {"properties": {"a": {"type": "string", "pattern": "("}}}'),
         "'(' cannot be read: unclosed group, in 'pattern' (at #/properties/a)\n"),
        (lark('// for f\nstart: %json {"type": "null"} | %json {"type": "array", "minItems": 2, "maxItems": 1}'),
         "in 'minItems' and 'maxItems' (at #)\n   1 | // for f"),
        (Grammar("json_schema", json.dumps({"properties": {"a" * 5_000: {"pattern": "(" * 5_000}}})), "aaa ...)"),
        (Grammar("regex", "(a"), "unclosed group"),
        (Grammar("regex", "(?=a)b"), "look-around"),
        (Grammar("regex", "(" * 100_000), "invalid regex"),
        (Grammar("regex", "a\ud800"), "half of a surrogate pair"),
        (Grammar("choice", '["\\ud800"]'), "regex parse error"),
        (Grammar("json_schema", '{"const": "\\ud800"}'), "which is no character (at #/const)"),
        (Grammar("choice", "[]"), "there must be 1 to"),
        (Grammar("choice", "{"), "the choices are not JSON"),
        (Grammar("choice", '["a", 1]'), "must be a list of texts"),
        (lark("start: ("), "Expected token ')'"),
        (lark('begin: "a"'), "start"),
        (lark("start: <|no_such_token|>"), "unknown special token"),
        (lark("root ::= ("), "the GBNF grammar cannot be read"),
        (lark("root ::= " + "(" * 50_000), "the GBNF grammar"),
        (lark('start: "a" | %json {"uniqueItems": true}'), "'uniqueItems' is not supported"),
        (lark('start: "a"\n | %json {"type": '), "no readable JSON at line 2"),
        (lark("start: " + '"a" | ' * 11_000 + '"b"'), "more than 10000 alternatives"),
        (lark("start: " + "(" * 2_000 + '"a"' + ")" * 2_000), "more than 1000 rules and brackets"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(grammar: Grammar, words: str, compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiler.compile(grammar)
    assert words in refused.value.detail
    assert len(refused.value.detail) < 1_200


def test_the_search_for_the_place_of_a_fault_is_bounded() -> None:
    tried: list[str] = []

    def fault(source: str) -> str:
        tried.append(source)
        return LLMatcher.validate_grammar(source)

    schema = json.dumps({"properties": {f"p{n}": {"type": "string", "pattern": "("} for n in range(100)}})
    whole = blame(schema, fault, deadline=time.monotonic() - 1)
    assert whole is not None
    assert whole.endswith("'(' cannot be read: unclosed group (at # or below)")
    assert len(tried) == 1
    found = blame(schema, fault, deadline=time.monotonic() + 1_000)
    assert found is not None
    assert found.endswith("in 'pattern' (at #/properties/p0)")
    assert blame('{"type": "null"}', fault, deadline=0.0) is None


def chain_of_references(length: int) -> str:
    links = {f"a{n}": {"type": "array", "items": {"$ref": f"#/$defs/a{n + 1}"}} for n in range(length)}
    return json.dumps({"$defs": {**links, f"a{length}": {}}, "$ref": "#/$defs/a0"})


def chain_of_rules(length: int) -> str:
    return "start: r0\n" + "".join(f'r{n}: "a" r{n + 1}\n' for n in range(length)) + f'r{length}: "b"'


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar("json_schema", chain_of_references(3_000)),
        lark(chain_of_rules(9_000)),
        lark(chain_of_rules(9_000).replace(": ", '[capture="x"]: ')),
        lark("start: R0\n" + "".join(f"R{n}: {'(' * 28}R{n + 1} 'c' {')*' * 28}\n" for n in range(200))),
    ],
    ids=["references", "rules", "rules with options", "terminals"],
)
def test_what_would_overflow_the_library_is_refused(grammar: Grammar, compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequest, match="more than"):
        compiler.compile(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar("json_schema", chain_of_references(90)),
        lark(chain_of_rules(900)),
        Grammar("regex", "a{1,10000}b"),
        Grammar("regex", "((a{1,100}){1,100}){1,100}b"),
        Grammar("regex", "(a|b)*a(a|b){20}c"),
        Grammar("json_schema", json.dumps({"enum": [f"value {n} of many" for n in range(5_000)]})),
        Grammar("json_schema", json.dumps({"type": "array", "items": {"type": "integer"}, "maxItems": 10**9})),
        Grammar("json_schema", json.dumps({"type": "object", "properties": {f"p{n}": {} for n in range(1_000)}})),
    ],
    ids=["references", "rules", "repeats", "nested repeats", "exponential", "values", "items", "properties"],
)
def test_large_grammars_work(grammar: Grammar, compiler: GrammarCompiler, walker: Walker) -> None:
    matcher = compiler.compile(grammar).matcher()
    for _ in range(3):
        matcher.accept(int(allowed(matcher)[-1]))
    assert allowed(matcher).size


def test_all_end_tokens_may_end_a_text_and_only_a_whole_one(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    matcher = compiler.compile(Grammar("regex", "a+")).matcher()
    assert len(smollm.eos_token_ids) == 2
    assert not smollm.eos_token_ids & set(allowed(matcher))
    matcher.accept(token(smollm, "a"))
    assert smollm.eos_token_ids <= set(allowed(matcher))
    assert not matcher.stopped
    matcher.accept(min(smollm.eos_token_ids))
    assert matcher.stopped


def test_a_text_that_nothing_can_follow_is_complete_without_an_end_token(
    compiler: GrammarCompiler, smollm: ModelFiles
) -> None:
    matcher = compiler.compile(choice(["yes", "no"])).matcher()
    matcher.accept(token(smollm, "yes"))
    assert matcher.stopped
    assert set(allowed(matcher)) == smollm.eos_token_ids
    assert matcher.forced() == []


@pytest.mark.parametrize(
    ("grammar", "text", "complete"),
    [
        (Grammar("regex", "[ab]*"), "ab", [True, True, True]),
        (Grammar("regex", "(ab)+"), "abab", [False, False, True, False, True]),
        (choice(["yes", "yes please"]), "yes please", [False, True, True]),
        (Grammar("json_object"), '{"a": 1}', [False] * 6 + [True]),
    ],
)
def test_a_matcher_knows_where_its_text_may_end(
    grammar: Grammar, text: str, complete: list[bool], compiler: GrammarCompiler, smollm: ModelFiles
) -> None:
    matcher = compiler.compile(grammar).matcher()
    seen = [matcher.complete]
    pieces = list(text) if grammar.kind == "regex" else [text]
    for each in pieces:
        for token_id in smollm.tokenizer.encode(each, add_special_tokens=False):
            matcher.mask(10.0)
            matcher.accept(token_id)
            seen.append(matcher.complete)
    assert seen == complete
    if not matcher.stopped:
        matcher.accept(min(smollm.eos_token_ids))
    assert matcher.complete


def test_padding_is_never_allowed(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    for source in ("start: /(?s:.*)/", "start: <[*]>"):
        matcher = compiler.compile(lark(source)).matcher()
        mask = matcher.mask(10.0)
        assert mask is not None
        assert mask.dtype == np.uint32
        assert mask.shape == (-(-PADDED // 32),)
        assert allowed(matcher).max() < smollm.tokenizer.vocab_size
    assert allowed(matcher).size == smollm.tokenizer.vocab_size


def test_added_tokens_beyond_the_logits_are_left_out(smollm: ModelFiles, tmp_path: Path, walker: Walker) -> None:
    described = json.loads(smollm.tokenizer.to_json())
    count = smollm.tokenizer.vocab_size
    described["added_tokens"].append({**described["added_tokens"][0], "id": count, "content": "<beyond>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    wider = ModelTokenizer.from_json(tmp_path / "tokenizer.json")
    assert wider.vocab_size == count + 1
    narrow = GrammarCompiler(wider, count, smollm.eos_token_ids)
    assert matches(narrow.compile(Grammar("regex", "(?s:.*)")), walker, "hello")
    assert allowed(narrow.compile(lark("start: <[*]>")).matcher()).max() == count - 1


def test_a_text_written_like_an_added_token_is_spelled_out(compiler: GrammarCompiler, walker: Walker) -> None:
    compiled = compiler.compile(choice(["<|im_start|>abc"]))
    assert walker.walk(compiled, 0) == b"<|im_start|>abc"
    matcher = compiled.matcher()
    for forced in iter(matcher.forced, []):
        for each in forced:
            matcher.accept(each)
    assert not follows(compiled, walker.tokenizer.encode("<|im_start|>abc", add_special_tokens=False))


def test_forced_tokens_are_what_must_follow(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "boolean"}}, "required": ["name"]}
    matcher = compiler.compile(Grammar("json_schema", json.dumps(schema))).matcher()
    forced = matcher.forced()
    assert smollm.tokenizer.decode(forced) == '{"name":'
    for each in forced:
        assert set(allowed(matcher)) >= {each}
        matcher.accept(each)
    assert token(smollm, " true") in allowed(matcher)
    assert matcher.forced() == []


def test_a_token_that_the_mask_forbids_ends_the_matcher(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    matcher = compiler.compile(choice(["yes"])).matcher()
    with pytest.raises(GrammarError, match=r"after 0 tokens: .*doesn't satisfy the grammar"):
        matcher.accept(token(smollm, "no"))
    with pytest.raises(GrammarError):
        matcher.mask(10.0)


def test_a_grammar_that_becomes_too_complex_ends_with_an_error(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    matcher = compiler.compile(lark('start: "x" | "y" ("a" "b"){100000}')).matcher()
    with pytest.raises(GrammarError, match=r"could not be followed after [1-3] tokens: .*Too many items") as failed:
        for text in ("y", "a", "b", "a"):
            matcher.accept(token(smollm, text))
            matcher.mask(10.0)
    assert "<" not in str(failed.value)


def test_generations_do_not_disturb_each_other(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    compiled = compiler.compile(choice(["ab", "cd"]))
    one, other = compiled.matcher(), compiled.matcher()
    one.accept(token(smollm, "a"))
    assert token(smollm, "c") in allowed(other)
    assert set(allowed(one)) == {token(smollm, "b")}
    first = other.mask(10.0)
    assert first is not None
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_a_slow_grammar_keeps_no_one_waiting(compiler: GrammarCompiler, smollm: ModelFiles) -> None:
    compiled = compiler.compile(choice(["slow", "slower"]))
    compiled.slow = True
    matcher = compiled.matcher()
    matcher.accept(token(smollm, "s"))
    release = Event()
    try:
        for _ in range(2):
            compiled.executor().submit(release.wait, 60)
        matcher.begin()
        assert matcher.mask(0.0) is None
        assert matcher.forced() == []
    finally:
        release.set()
    assert token(smollm, "low") in allowed(matcher)
    matcher.accept(token(smollm, "low"))
    assert smollm.eos_token_ids < set(allowed(matcher))


def test_a_grammar_is_compiled_once_also_by_many_at_a_time(compiler: GrammarCompiler) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(compiler.compile, [Grammar("regex", "once[0-9]", after_token_id=n) for n in range(16)]))
    assert len(set(map(id, made))) == 1
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="unclosed"):
            compiler.compile(Grammar("regex", "(once"))


def test_only_so_many_grammars_are_kept(smollm: ModelFiles) -> None:
    compiler = GrammarCompiler(smollm.tokenizer, smollm.tokenizer.vocab_size, smollm.eos_token_ids)
    first = compiler.compile(choice(["first"]))
    for n in range(MOST_GRAMMARS - 1):
        compiler.compile(choice([str(n)]))
    assert compiler.compile(choice(["first"])) is first
    for n in range(MOST_GRAMMARS):
        compiler.compile(choice([f"more {n}"]))
    assert compiler.compile(choice(["first"])) is not first


def test_a_closed_compiler_computes_nothing_more_beside(smollm: ModelFiles) -> None:
    compiler = GrammarCompiler(smollm.tokenizer, smollm.tokenizer.vocab_size, smollm.eos_token_ids)
    compiled = compiler.compile(choice(["ab"]))
    compiled.slow = True
    matcher = compiled.matcher()
    matcher.accept(token(smollm, "a"))
    assert token(smollm, "b") in allowed(matcher)
    compiler.close()
    matcher.accept(token(smollm, "b"))
    with pytest.raises(GrammarError, match="closing"):
        matcher.begin()


def token(smollm: ModelFiles, text: str) -> int:
    (number,) = smollm.tokenizer.encode(text, add_special_tokens=False)
    return number
