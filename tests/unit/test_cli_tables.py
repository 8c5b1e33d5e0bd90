"""What is printed can be read and copied."""

import io

import pytest

from forebay.cli.admin.inputs import duration_s, shown_time, tags_of, unix_time
from forebay.cli.admin.tables import Column, amount, layout, limit, money, print_record, print_table
from forebay.cli.admin.usage_table import shown_usd, usage_table
from forebay.core.errors import InvalidRequest


def lines(rows: list[list[str]], rights: list[bool], width: int) -> list[str]:
    return [line for row in layout(rows, rights, width) for line in row]


def test_a_table_that_fits_is_as_wide_as_its_cells() -> None:
    assert lines([["id", "limit"], ["acme", "10"], ["b", "–"]], [False, True], 80) == [
        "id    limit",
        "acme     10",
        "b         –",
    ]


def test_what_does_not_fit_is_broken_between_words_and_numbers_keep_their_units() -> None:
    rows = [["id", "name", "budget / month"], ["acme:model:x", "a rather long name", "25.00 USD"]]
    assert lines(rows, [False, False, True], 37) == [
        "id            name           budget /",
        "                                month",
        "acme:model:x  a rather      25.00 USD",
        "              long name",
    ]


def test_no_id_is_ever_cut() -> None:
    id_ = "tenant:model:" + "x" * 200
    assert all(id_ in line for line in lines([["id", "b"], [id_, "1"]], [False, True], 40)[1:])


def test_wide_characters_take_two_columns() -> None:
    assert lines([["a", "b"], ["語語", "x"], ["c", "y"]], [False, False], 80) == ["a     b", "語語  x", "c     y"]


def test_markup_in_a_name_is_text() -> None:
    out = io.StringIO()
    print_table([Column("name", lambda row: row["name"])], [{"name": "[red]x[/red]"}], "none", out)
    print_record([("name", "[bold]"), ("text", "one\ntwo")], out)
    assert out.getvalue().splitlines() == ["name", "[red]x[/red]", "name  [bold]", "text  one", "      two"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("12.5", "12.50 USD"),
        ("0", "0.00 USD"),
        ("0.000000001", "0.000000001 USD"),
        ("1E+3", "1,000.00 USD"),
        (None, "–"),
    ],
)
def test_money_has_its_currency_and_all_its_decimals(value: str | None, said: str) -> None:
    assert money(value) == said


def test_numbers() -> None:
    assert (limit(None), limit(0), limit(4096), amount("0.12345", 4)) == ("–", "0", "4,096", "0.1234")


def test_times() -> None:
    assert unix_time("2026-12-01", "--from") == unix_time("2026-12-01T01:00:00+01:00", "--from") == 1796083200.0
    assert unix_time("1796083200", "--from") == 1796083200.0
    assert shown_time(1796083200.0, "never") == "2026-12-01"
    assert shown_time(1796083201.5, "never") == "2026-12-01 00:00:01"
    assert shown_time(1e300, "never") == "1e+300"
    assert shown_time(None, "never") == "never"
    for wrong in ("", "soon", "2026-13-01", "2026"):
        with pytest.raises(InvalidRequest, match="--from"):
            unix_time(wrong, "--from")


def test_durations_and_tags() -> None:
    assert [duration_s(text, "-") for text in ("90", "90s", "1.5m", "24h", "7d")] == [90, 90, 90, 86400, 604800]
    assert tags_of(["a=1", "b=x=y", "c="], "--tag") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(InvalidRequest, match="given twice"):
        tags_of(["a=1", "a=2"], "--tag")


def test_what_a_million_tokens_came_to() -> None:
    figures = {"requests": 1, "prompt_tokens": 3, "cached_tokens": 0, "output_tokens": 0, "cost_nanos": 10}
    known = usage_table({"group_by": ["tenant"], "data": [], "total": {**figures, "prompt_nanos": 10}}).total
    assert (known["usd_per_million_prompt"], known["usd_per_million_output"]) == ("0.003333333", None)
    unknown = usage_table({"group_by": [], "data": [], "total": figures}).total
    assert (unknown["cost_usd"], unknown["prompt_usd"], unknown["usd_per_million_prompt"]) == ("0.00000001", None, None)


def test_an_amount_is_never_shown_as_nothing() -> None:
    assert [shown_usd(usd) for usd in ("0", "0.00001234", "0.0001", "0.49104", "-0.000000001")] == [
        "0.0000",
        "0.00001234",
        "0.0001",
        "0.4910",
        "-0.000000001",
    ]


def test_a_duration_may_have_a_most() -> None:
    assert duration_s("30d", "--overlap", 30) == 30 * 86400
    with pytest.raises(InvalidRequest, match="--overlap: expected at most 30d, got 60d"):
        duration_s("60d", "--overlap", 30)
