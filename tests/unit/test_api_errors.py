"""Each error is mapped, told and documented."""

import json
from pathlib import Path

import pytest

from forebay.api.errors import OPENAI_ERRORS, PROBLEM_TYPE_PREFIX, headers, problem
from forebay.core.errors import CapacityUnavailable, ForebayError, InvalidApiKey, InvalidRequest

DOCUMENT = Path(__file__).parents[2] / "docs" / "errors.md"


def tree(root: type[ForebayError] = ForebayError) -> list[type[ForebayError]]:
    below = [each for child in root.__subclasses__() for each in (child, *tree(child))]
    return [each for each in below if each.__module__.startswith("forebay.")]


def documented() -> dict[str, list[str]]:
    """The rows of the document's table, by problem type."""
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row for row in cells}


def test_the_table_has_each_error_of_the_tree_and_no_other() -> None:
    assert set(OPENAI_ERRORS) == set(tree())


def test_types_are_unique() -> None:
    assert len({error.type for error in tree()}) == len(tree())


@pytest.mark.parametrize("error", tree(), ids=lambda error: error.type)
def test_each_error_is_documented_as_it_is(error: type[ForebayError]) -> None:
    kind, code = OPENAI_ERRORS[error]
    assert documented()[error.type][:4] == [error.type, str(error.status), kind, code or "null"]


def test_the_document_knows_no_other_error() -> None:
    assert set(documented()) == {error.type for error in tree()}


@pytest.mark.parametrize("error", tree(), ids=lambda error: error.type)
def test_a_problem_carries_both_forms(error: type[ForebayError]) -> None:
    body = json.loads(problem(error("what was wrong", param="messages[0]")))
    kind, code = OPENAI_ERRORS[error]
    assert body == {
        "type": PROBLEM_TYPE_PREFIX + error.type,
        "title": error.title,
        "status": error.status,
        "detail": "what was wrong",
        "error": {"message": "what was wrong", "type": kind, "param": "messages[0]", "code": code},
    }


@pytest.mark.parametrize(
    ("wait_s", "seconds", "milliseconds"), [(0.2, "1", "200"), (2.6, "3", "2600"), (0.0, "1", "1")]
)
def test_a_hint_when_to_come_back_is_never_zero(wait_s: float, seconds: str, milliseconds: str) -> None:
    told = headers(CapacityUnavailable("full", retry_after_s=wait_s))
    assert told == {"Retry-After": seconds, "retry-after-ms": milliseconds}


def test_only_a_missing_key_is_asked_for() -> None:
    assert headers(InvalidApiKey("who?")) == {"WWW-Authenticate": "Bearer"}
    assert headers(InvalidRequest("what?")) == {}
