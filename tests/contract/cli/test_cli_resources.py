"""Each command does what it says, over HTTP."""

import io
import re
from pathlib import Path

import pytest

from tests.contract.cli.conftest import Cli
from tests.contract.gateway_admin.platform import AdminPlatform


def test_a_tenant_s_life(cli: Cli) -> None:
    assert cli("tenant", "list").out == "There are no tenants.\n"
    made = cli("tenant", "create", "acme", "--name", "Acme Inc.", "--default-class", "batch", "--allow-fallback")
    assert made.code == 0
    assert made.out.startswith("The tenant acme is created:\n")
    changed = cli("tenant", "set", "acme", "--disabled", "--no-allow-fallback", "--json").json
    assert (changed["disabled"], changed["allow_fallback"], changed["name"]) == (True, False, "Acme Inc.")
    shown = cli("tenant", "show", "acme").out
    assert re.search(r"^default_class +batch$", shown, re.MULTILINE)
    assert cli("tenant", "delete", "acme").out == "The tenant acme is deleted.\n"
    assert cli("tenant", "show", "acme").code == 1


def test_json_is_the_api_s_own(cli: Cli, platform: AdminPlatform) -> None:
    cli("tenant", "create", "acme")
    assert (
        cli("tenant", "show", "acme", "--json").out
        == platform.send("GET", "/admin/v1/tenants/acme").body.decode() + "\n"
    )
    assert cli("tenant", "list", "--json").json["data"] == platform.send("GET", "/admin/v1/tenants").json["data"]
    assert cli("tenant", "delete", "acme", "--json").out == ""


def test_a_key_s_secret_is_alone_on_its_line_and_shown_once(cli: Cli, platform: AdminPlatform) -> None:
    cli("tenant", "create", "acme")
    made = cli(
        "key", "create", "acme", "--name", "search", "--scope", "inference", "--model", "assistant", "--tag", "team=a"
    )
    assert "shown only now" in made.out
    (secret,) = [line for line in made.out.splitlines() if line.startswith("fb-")]
    id_ = platform.key_id_of(secret)
    for later in (cli("key", "list"), cli("key", "show", id_), cli("key", "list", "--json")):
        assert secret not in later.out
        assert id_ in later.out

    rotated = cli("key", "rotate", id_, "--overlap", "30m")
    (second,) = [line for line in rotated.out.splitlines() if line.startswith("fb-")]
    assert platform.key_id_of(second) == platform.key_id_of(secret) == id_
    assert cli("key", "revoke", id_).code == 0
    assert cli("key", "list", "--tenant", "acme").out == "There are no keys.\n"


def test_a_key_s_fields_are_changed_one_by_one(cli: Cli) -> None:
    cli("tenant", "create", "acme")
    made = cli(
        "key",
        "create",
        "acme",
        "--model",
        "assistant",
        "--tag",
        "a=1",
        "--tag",
        "b=2",
        "--expires",
        "2030-01-01",
        "--json",
    ).json
    id_ = made["id"]
    assert made["expires_at"] == 1893456000.0
    changed = cli(
        "key", "set", id_, "--all-models", "--tag", "c=3", "--remove-tag", "a", "--expires", "never", "--json"
    ).json
    assert (changed["models"], changed["tags"], changed["expires_at"]) == (None, {"b": "2", "c": "3"}, None)
    assert cli("key", "set", id_, "--scope", "admin", "--scope", "usage", "--disabled", "--json").json["scopes"] == [
        "admin",
        "usage",
    ]
    assert cli("key", "delete", id_).code == 0


def test_a_quota_is_set_changed_and_taken_away(cli: Cli) -> None:
    cli("tenant", "create", "acme")
    limits = [
        "--tokens-per-minute",
        "100000",
        "--requests-per-minute",
        "60",
        "--concurrent",
        "8",
        "--max-tokens",
        "4096",
    ]
    made = cli("quota", "set", "acme", "--model", "team/coder", *limits, "--budget", "25.00")
    assert made.code == 0, made.err
    assert re.search(r"^acme:model:team/coder +100,000 +60 +8 +4,096 +25.00 USD$", made.out, re.MULTILINE)
    changed = cli(
        "quota", "set", "acme", "--model", "team/coder", "--tokens-per-minute", "none", "--budget", "none", "--json"
    ).json
    assert (changed["tokens_per_minute"], changed["monthly_budget_usd"], changed["requests_per_minute"]) == (
        None,
        None,
        60,
    )
    assert "–" in cli("quota", "list", "--tenant", "acme").out
    assert (
        cli("quota", "show", "acme:model:team/coder").out == cli("quota", "show", "acme", "--model", "team/coder").out
    )
    assert cli("quota", "delete", "acme", "--model", "team/coder").code == 0
    assert cli("quota", "list").out == "There are no quotas.\n"


def test_a_quota_of_a_key(cli: Cli) -> None:
    cli("tenant", "create", "acme")
    key = cli("key", "create", "acme", "--json").json["id"]
    assert cli("quota", "set", "acme", "--key", key, "--concurrent", "1", "--json").json["key"] == key
    assert cli("quota", "list", "--key", key, "--json").json["data"][0]["concurrent_requests"] == 1


def test_prices(cli: Cli) -> None:
    now = cli("price", "set", "chat", "--prompt", "0.41", "--cached", "0.10", "--output", "0.98", "--class", "batch")
    assert now.code == 0, now.err
    assert "0.10" in now.out and "chat:batch:" in now.out
    later = cli("price", "set", "chat", "--prompt", "1", "--output", "2", "--from", "2090-12-01", "--json").json
    assert (later["effective_from"], later["priority"]) == (3815769600.0, "*")
    assert len(cli("price", "list", "--model", "chat", "--json").json["data"]) == 2
    assert len(cli("price", "list", "--class", "batch", "--json").json["data"]) == 1
    assert cli("price", "delete", later["id"]).code == 0
    (begun,) = cli("price", "list", "--json").json["data"]
    refused = cli("price", "delete", begun["id"])
    assert refused.code == 1
    assert refused.err.startswith("Conflict: ")


def test_prompts(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("You are the house's assistant.\n")
    assert cli("prompt", "set", "house/style", "--file", str(file), "--model", "assistant").code == 0
    assert cli("prompt", "set", "house/style", "--all-models").code == 0
    shown = cli("prompt", "show", "house/style", "--json").json
    assert (shown["text"], shown["models"]) == ("You are the house's assistant.\n", None)
    assert "house/style" in cli("prompt", "list").out
    assert cli("prompt", "delete", "house/style").code == 0
    missing = cli("prompt", "set", "x", "--file", str(tmp_path / "none.txt"))
    assert missing.code == 1
    assert "No such file" in missing.err


def test_the_audit_log_names_what_changed(cli: Cli) -> None:
    cli("tenant", "create", "acme")
    cli("tenant", "set", "acme", "--name", "A", "--canary")
    out = cli("audit", "list", "--kind", "tenants", "--id", "acme").out
    assert "name, canary" in out
    assert [entry["action"] for entry in cli("audit", "list", "--json").json["data"]] == ["replace", "create"]
    assert len(cli("audit", "list", "--limit", "1", "--json").json["data"]) == 1


def test_a_list_has_all_pages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.cli.admin.api.PAGE", 2)
    for number in range(5):
        cli("tenant", "create", f"t{number}")
    assert cli("tenant", "list").out.count("interactive") == 5
    listed = cli("tenant", "list", "--json").json
    assert ([row["id"] for row in listed["data"]], listed["has_more"], listed["last_id"]) == (
        ["t0", "t1", "t2", "t3", "t4"],
        False,
        "t4",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tenant", "show", "nobody"], "Resource not found: There is no tenant nobody"),
        (["tenant", "create", "two words"], "Invalid request: "),
        (["key", "create", "nobody"], "there is no tenant nobody"),
        (["quota", "set", "acme"], "Nothing is to be changed"),
        (["quota", "set", "acme", "--model", "assistent", "--concurrent", "1"], "did you mean assistant"),
        (["quota", "set", "acme", "--model", "assistant", "--key", "k", "--concurrent", "1"], "give one"),
        (["quota", "set", "acme", "--budget", "-1"], "monthly_budget_usd"),
        (["quota", "set", "acme", "--tokens-per-minute", "none"], "There is no quota acme"),
        (["price", "set", "chat", "--prompt", "1", "--output", "1", "--from", "soon"], "--from: expected a time"),
        (["key", "rotate", "k", "--overlap", "long"], "--overlap: expected a duration"),
        (["key", "create", "acme", "--tag", "team"], "--tag: expected NAME=VALUE"),
    ],
)
def test_what_is_refused_says_why(cli: Cli, arguments: list[str], said: str) -> None:
    cli("tenant", "create", "acme")
    ran = cli(*arguments)
    assert ran.code == 1
    assert ran.out == ""
    assert said in ran.err


def test_a_second_key_of_a_name_is_told(cli: Cli) -> None:
    cli("tenant", "create", "acme")
    first = cli("key", "create", "acme", "--name", "search", "--json")
    assert first.err == ""
    second = cli("key", "create", "acme", "--name", "search")
    assert second.code == 0
    assert first.json["id"] in second.err


def test_a_price_that_has_begun_is_told(cli: Cli) -> None:
    begun = cli("price", "set", "chat", "--prompt", "1", "--output", "1", "--from", "2026-01-01")
    assert begun.code == 0
    assert "never be changed or deleted" in begun.err
    assert cli("price", "set", "chat", "--prompt", "1", "--output", "1", "--from", "2090-01-01").err == ""


def test_hints_name_commands(cli: Cli) -> None:
    assert "`forebay tenant list`" in cli("key", "create", "nosuch").err


def test_a_prompt_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Be brief."))
    assert cli("prompt", "set", "px", "--file", "-").code == 0
    assert cli("prompt", "show", "px", "--json").json["text"] == "Be brief."
