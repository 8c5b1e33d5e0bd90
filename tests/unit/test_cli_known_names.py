"""Wrong names are told with their place before a plan is carried out."""

from decimal import Decimal
from typing import Any

from forebay.cli.admin.known_names import KnownNames, name_problems
from forebay.cli.admin.plan import Row, State, make_plan
from forebay.cli.admin.sections import SECTIONS, Fields

KNOWN = KnownNames(aliases=("assistant-large", "assistant-small"), pools=("large", "small"))
EMPTY: State = dict.fromkeys(SECTIONS, ())


def fields(kind: str, **given: Any) -> Fields:
    return {**SECTIONS[kind].defaults, **given}


def price(model: str) -> Fields:
    amounts = {"prompt_usd_per_million": Decimal(1), "output_usd_per_million": Decimal(2)}
    return fields("prices", model=model, **amounts)


def problems(declared: dict[str, list[Fields]], state: State = EMPTY, known: KnownNames = KNOWN) -> list[str]:
    return list(name_problems(make_plan(declared, state, now=0.0, prune=False), declared, known))


def test_every_name_that_is_not_there_is_told() -> None:
    declared = {
        "tenants": [fields("tenants", id="acme")],
        "keys": [fields("keys", tenant="acme", name="k", models=("assistant-large", "assistant-larg"))],
        "quotas": [
            fields("quotas", tenant="acme", alias="assistant-large"),
            fields("quotas", tenant="acme", alias="x"),
        ],
        "prices": [price("*"), price("large"), price("chat")],
        "prompts": [fields("prompts", id="style", text="Hi", models=("nothing",))],
    }
    assert problems(declared) == [
        "keys[0].models[1]: there is no alias assistant-larg; did you mean assistant-large?",
        "quotas[1].alias: there is no alias x; known here: assistant-large, assistant-small.",
        "prices[2].model: there is no pool chat; known here: large, small.",
        "prompts[0].models[0]: there is no alias nothing; known here: assistant-large, assistant-small.",
    ]
    assert problems(declared, known=KnownNames(None, None)) == []


def test_what_was_named_before_may_stay() -> None:
    there = Row("style", 1, fields("prompts", id="style", text="Hi", models=("gone",)))
    declared = {"prompts": [fields("prompts", id="style", text="Hello", models=("gone",))]}
    assert problems(declared, {**EMPTY, "prompts": [there]}) == []
    declared = {"prompts": [fields("prompts", id="style", text="Hello", models=("gone", "new"))]}
    assert [each.split(":")[0] for each in problems(declared, {**EMPTY, "prompts": [there]})] == [
        "prompts[0].models[1]"
    ]
