"""`platform.yaml` is read strictly, and what is wrong is told with its place."""

from decimal import Decimal
from pathlib import Path

import pytest

from forebay.cli.admin.known_names import KnownNames, name_problems
from forebay.cli.admin.plan import make_plan
from forebay.cli.admin.platform_file import Declaration, parse_platform, read_platform_file
from forebay.cli.admin.sections import SECTIONS
from forebay.config.loading import load_config
from forebay.core.errors import ConfigurationError


def parsed(text: str, base: Path = Path()) -> Declaration:
    return parse_platform(text, "platform.yaml", base)


def problems(text: str, base: Path = Path()) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        parsed(text, base)
    return raised.value.detail.splitlines()


def test_money_is_read_exactly_as_it_is_written() -> None:
    text = """
prices:
  - {model: chat, prompt_usd_per_million: 0.1, cached_usd_per_million: 1e-9, output_usd_per_million: 12}
quotas:
  - {tenant: acme, monthly_budget_usd: 1234567.123456789}
"""
    price, quota = parsed(text)["prices"][0], parsed(text)["quotas"][0]
    assert price["prompt_usd_per_million"] == Decimal("0.1")
    assert price["cached_usd_per_million"] == Decimal("0.000000001")
    assert price["output_usd_per_million"] == Decimal(12)
    assert quota["monthly_budget_usd"] == Decimal("1234567.123456789")


def test_what_is_not_said_is_the_default() -> None:
    (tenant,) = parsed("tenants: [{id: acme}]")["tenants"]
    assert (tenant["default_class"], tenant["canary"], tenant["log_retention_days"]) == ("standard", False, 30)


def test_times_and_lists() -> None:
    (key,) = parsed("keys: [{tenant: a, name: k, expires_at: 2030-01-01, models: [b, a, b], scopes: [usage, admin]}]")[
        "keys"
    ]
    assert (key["expires_at"], key["models"], key["scopes"]) == (1893456000.0, ("a", "b"), ("admin", "usage"))
    (price,) = parsed(
        "prices: [{prompt_usd_per_million: 1, output_usd_per_million: 1, effective_from: 2026-12-01T01:00:00+01:00}]"
    )["prices"]
    assert price["effective_from"] == 1796083200.0


def test_only_the_sections_that_are_there_are_declared() -> None:
    assert list(parsed("prompts: []\ntenants: []")) == ["tenants", "prompts"]


def test_a_prompt_s_text_may_be_in_a_file_beside(tmp_path: Path) -> None:
    (tmp_path / "style.txt").write_text("Be brief.\n")
    (tmp_path / "platform.yaml").write_text("prompts: [{id: style, file: style.txt}]")
    (prompt,) = read_platform_file(tmp_path / "platform.yaml")["prompts"]
    assert prompt["text"] == "Be brief.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tenants: [{id: a}, {id: b, default_class: urgent}]",
            "tenants[1].default_class: invalid enum value 'urgent'; give one of: interactive, standard, batch.",
        ),
        (
            "tenants: [{id: a, defualt_class: batch}]",
            "tenants[0].defualt_class: there is no such field; did you mean default_class?",
        ),
        ("tennants: []", "tennants: there is no such section; did you mean tenants?"),
        ("tenants: [{}]", "tenants[0].id: is missing."),
        ("tenants: [{id: a}, {id: a, name: A}]", "tenants[1]: a is there already as tenants[0]; leave one out."),
        ("tenants: {id: a}", "tenants: expected a list"),
        ("tenants:", "tenants: expected a list, got nothing; write [] for none."),
        ("tenants: [a]", "tenants[0]: expected fields and their values, got str 'a'."),
        ("tenants: [{id: 17}]", "tenants[0].id: expected `str`, got `int`."),
        ("tenants: [{id: a, name: yes}]", "tenants[0].name: expected `str`, got `bool`."),
        ("keys: [{tenant: a}]", "keys[0].name: is missing."),
        ("keys: [{tenant: a, name: ''}]", "keys[0].name: is missing."),
        ("keys: [{tenant: a, name: k, id: key-1}]", "keys[0].id: there is no such field"),
        ("keys: [{tenant: a, name: k, hash: x}]", "keys[0].hash: there is no such field"),
        (
            "keys: [{tenant: a, name: k, scopes: [usage, god]}]",
            "keys[0].scopes[1]: invalid enum value 'god'; give one of: inference, ",
        ),
        ("keys: [{tenant: a, name: k, tags: {team: 1}}]", "keys[0].tags: expected `str`, got `int`."),
        ("quotas: [{tenant: a, alias: m, key: k}]", "quotas[0]: give `alias` or `key`, not both."),
        ("quotas: [{tenant: a, token_burst: 5}]", "quotas[0]: `token_burst` without `tokens_per_minute`"),
        ("quotas: [{tenant: a, monthly_budget_usd: .inf}]", "quotas[0]: monthly_budget_usd: expected an amount"),
        ("quotas: [{tenant: a, tokens_per_minute: 1.5}]", "quotas[0].tokens_per_minute: expected `int | null`"),
        ("prices: [{output_usd_per_million: 1}]", "prices[0].prompt_usd_per_million: is missing."),
        (
            "prices: [{prompt_usd_per_million: 1, output_usd_per_million: 1, effective_from: soon}]",
            "prices[0].effective_from: expected a time",
        ),
        ("prompts: [{id: p, file: none.txt}]", "prompts[0].file: none.txt cannot be read"),
        ("prompts: [{id: p, text: a, file: b}]", "prompts[0].file: text is given as well"),
        ("tenants: [{id: a, id: b}]", "platform.yaml:1:19: the key 'id' is there twice."),
        ("tenants: []\ntenants: []", "platform.yaml:2:1: the key 'tenants' is there twice."),
        ("a: [", "platform.yaml:1:5: "),
        ("a: !!python/object:os.system x", "platform.yaml:1:4: could not determine a constructor"),
        ("a: 1\n---\nb: 2", "platform.yaml:2:1: "),
        ("a: !!float x", "platform.yaml:1:4: 'x' is not a number"),
        ("a: \x07", "platform.yaml: not valid YAML"),
        ("", "expected sections"),
        ("- a", "expected sections"),
        ("[" * 1000, "nested too deeply"),
        ("x: &x [*x]\ntenants: *x", "tenants[0]: expected fields"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text)), problems(text)


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert len(problems("tenants: [{id: a, x: 1, disabled: no-way}]\nquota: []")) == 3


def test_the_document_s_example_is_for_the_default_configuration() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    declared = parsed(example)
    config = load_config(None, {}).config
    plan = make_plan(declared, dict.fromkeys(SECTIONS, ()), now=0.0, prune=False)
    assert not plan.problems
    assert list(name_problems(plan, declared, KnownNames(config.resolved_aliases(), config.pools))) == []


def test_what_may_stand_there_is_told() -> None:
    (problem,) = problems("tenants: [{id: acme, default_class: urgent}]")
    assert problem.endswith("'urgent'; give one of: interactive, standard, batch.")
    (problem,) = problems("tenants: [{id: a b}]")
    assert problem.endswith("expected letters, digits, . _ -, at most 64, the first a letter or digit.")
