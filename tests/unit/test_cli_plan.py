"""What `forebay apply` decides to do."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from forebay.cli.admin.plan import Plan, Row, State, make_plan
from forebay.cli.admin.sections import SECTIONS

NOW = 1000.0
EMPTY: State = dict.fromkeys(SECTIONS, ())


def fields(kind: str, **given: Any) -> Mapping[str, Any]:
    return {**SECTIONS[kind].defaults, **given}


def price(effective_from: float | None = None, prompt: str = "1", model: str = "chat") -> Mapping[str, Any]:
    amounts = {"prompt_usd_per_million": Decimal(prompt), "output_usd_per_million": Decimal(2)}
    return fields("prices", model=model, effective_from=effective_from, **amounts)


def state(**rows: Sequence[Row]) -> State:
    return {**EMPTY, **rows}


def tenant_row(id_: str, **given: Any) -> Row:
    return Row(id_, 1, fields("tenants", id=id_, **given))


def key_row(id_: str, tenant: str, name: str, **given: Any) -> Row:
    return Row(id_, 1, fields("keys", tenant=tenant, name=name, **given))


def price_row(effective_from: float, prompt: str = "1") -> Row:
    return Row(f"chat:{effective_from}", 1, price(effective_from, prompt))


def done(plan: Plan) -> list[tuple[str, str, str]]:
    assert not plan.problems, plan.problems
    return [(change.action, change.kind, change.name) for change in plan.changes]


def test_what_is_missing_is_created_in_an_order_that_works() -> None:
    declared = {
        "quotas": [fields("quotas", tenant="acme", key="search")],
        "keys": [fields("keys", tenant="acme", name="search")],
        "tenants": [fields("tenants", id="acme")],
    }
    ordered = {kind: declared[kind] for kind in SECTIONS if kind in declared}
    assert done(make_plan(ordered, EMPTY, now=NOW, prune=False)) == [
        ("create", "tenants", "acme"),
        ("create", "keys", "acme search"),
        ("create", "quotas", "acme search"),
    ]


def test_only_fields_that_differ_are_changed() -> None:
    there = state(tenants=[Row("acme", 7, fields("tenants", id="acme", name="Old", canary=True))])
    (change,) = make_plan(
        {"tenants": [fields("tenants", id="acme", name="New", canary=True)]}, there, now=NOW, prune=False
    ).changes
    assert (change.fields, change.old, change.id, change.revision) == ({"name": "New"}, {"name": "Old"}, "acme", 7)


def test_without_prune_nothing_is_deleted_and_with_it_only_of_declared_kinds() -> None:
    there = state(
        tenants=[tenant_row("acme"), tenant_row("old")], prompts=[Row("p", 1, fields("prompts", id="p", text="x"))]
    )
    declared = {"tenants": [fields("tenants", id="acme")]}
    assert done(make_plan(declared, there, now=NOW, prune=False)) == []
    assert done(make_plan(declared, there, now=NOW, prune=True)) == [("delete", "tenants", "old")]


def test_what_names_others_is_deleted_before_them() -> None:
    there = state(
        tenants=[tenant_row("old")],
        keys=[key_row("key-1", "old", "k")],
        quotas=[Row("old:key:key-1", 1, fields("quotas", tenant="old", key="k"))],
    )
    plan = make_plan({"tenants": [], "keys": [], "quotas": []}, there, now=NOW, prune=True)
    assert [change.kind for change in plan.changes] == ["quotas", "keys", "tenants"]


def test_prune_keeps_operators_keys_and_whoever_has_something_left() -> None:
    there = state(
        tenants=[tenant_row("ops"), tenant_row("old")],
        keys=[key_row("key-1", "ops", "me", scopes=("admin",)), key_row("key-2", "old", "k")],
        quotas=[Row("old:key:key-2", 1, fields("quotas", tenant="old", key="k"))],
    )
    plan = make_plan({"tenants": [], "keys": []}, there, now=NOW, prune=True)
    assert done(plan) == []
    assert len(plan.kept) == 4


def test_a_key_is_known_by_its_name_and_never_made_twice() -> None:
    there = state(tenants=[tenant_row("acme")], keys=[key_row("key-1", "acme", "search")])
    declared = {"keys": [fields("keys", tenant="acme", name="search")]}
    plan = make_plan(declared, there, now=NOW, prune=True)
    assert done(plan) == []
    assert plan.unchanged == {"keys": 1}


def test_two_keys_of_one_name_are_a_problem() -> None:
    there = state(
        tenants=[tenant_row("acme")], keys=[key_row("key-1", "acme", "search"), key_row("key-2", "acme", "search")]
    )
    plan = make_plan({"keys": [fields("keys", tenant="acme", name="search")]}, there, now=NOW, prune=True)
    assert plan.problems == [
        "keys[0]: there are several keys acme search (key-1, key-2); rename or delete all but one."
    ]


def test_keys_and_quotas_of_nobody_are_problems() -> None:
    declared = {
        "keys": [fields("keys", tenant="nobody", name="k")],
        "quotas": [fields("quotas", tenant="acme", key="none"), fields("quotas", tenant="old")],
    }
    there = state(tenants=[tenant_row("acme"), tenant_row("old")])
    problems = make_plan({"tenants": [fields("tenants", id="acme")], **declared}, there, now=NOW, prune=True).problems
    assert [problem.partition(":")[0] for problem in problems] == [
        "keys[0].tenant",
        "quotas[0].key",
        "quotas[1].tenant",
    ]


def test_a_price_without_a_beginning_is_the_one_that_holds_now() -> None:
    declared = {"prices": [price(prompt="1.0")]}
    assert done(make_plan(declared, state(prices=[price_row(10.0)]), now=NOW, prune=False)) == []
    assert done(make_plan(declared, state(prices=[price_row(10.0), price_row(20.0, "3")]), now=NOW, prune=False)) == [
        ("create", "prices", "chat *")
    ]
    assert (
        done(make_plan(declared, state(prices=[price_row(10.0), price_row(NOW + 1, "3")]), now=NOW, prune=False)) == []
    )


def test_a_price_that_holds_once_the_dated_ones_are_there_is_made_in_one_go() -> None:
    """Else a second run would have something to do."""
    declared = {"prices": [price(500.0, "7"), price(prompt="1")]}
    there = state(prices=[price_row(10.0, "1")])
    assert len(make_plan(declared, there, now=NOW, prune=False).changes) == 2


def test_a_price_that_has_begun_is_never_changed_nor_deleted() -> None:
    there = state(prices=[price_row(10.0), price_row(NOW + 5)])
    plan = make_plan({"prices": [price(10.0, "9")]}, there, now=NOW, prune=False)
    assert plan.problems[0].startswith("prices[0]: chat:10.0 has begun")
    assert done(make_plan({"prices": []}, there, now=NOW, prune=True)) == [("delete", "prices", f"chat * {NOW + 5}")]
    assert done(make_plan({"prices": [price(NOW + 5, "9")]}, there, now=NOW, prune=False)) == [
        ("change", "prices", f"chat * {NOW + 5}")
    ]


def test_the_operator_s_own_tenant_is_never_pruned() -> None:
    there = state(tenants=[tenant_row("default"), tenant_row("old")])
    plan = make_plan({"tenants": []}, there, now=NOW, prune=True, own_tenant="default")
    assert done(plan) == [("delete", "tenants", "old")]
    assert len(plan.kept) == 1
    assert "tenant default (default): it is the operator's own" in plan.kept[0]


def test_a_new_key_that_has_expired_is_a_problem() -> None:
    declared = {
        "tenants": [fields("tenants", id="acme")],
        "keys": [fields("keys", tenant="acme", name="k", expires_at=NOW)],
    }
    (problem,) = make_plan(declared, EMPTY, now=NOW, prune=False).problems
    assert problem.startswith("keys[0].expires_at: 1970-01-01 00:16:40 is past")
