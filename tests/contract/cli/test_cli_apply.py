"""`forebay apply` against a real Admin API."""

import io
import time
from decimal import Decimal
from pathlib import Path

import pytest

from tests.contract.cli.conftest import Cli
from tests.contract.gateway_admin.platform import AdminPlatform

PLATFORM = """
tenants:
  - id: acme
    name: Acme Inc.
    default_class: batch
  - id: beta
keys:
  - tenant: acme
    name: search
    models: [team/coder, assistant]
    tags: {team: search, old: "1"}
    expires_at: 2090-01-01
quotas:
  - tenant: acme
    tokens_per_minute: 100000
    monthly_budget_usd: 25.10
  - {tenant: acme, alias: team/coder, concurrent_requests: 2}
  - {tenant: acme, key: search, max_tokens: 100}
prices:
  - {model: chat, prompt_usd_per_million: 0.1, output_usd_per_million: 0.2}
  - {model: chat, prompt_usd_per_million: 0.2, output_usd_per_million: 0.4, effective_from: 2090-01-01}
prompts:
  - {id: house/style, text: "Be brief."}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "platform.yaml"
    path.write_text(PLATFORM)
    return path


def change(file: Path, *replacements: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


def numbers(platform: AdminPlatform) -> int:
    return platform.store.change_number()


def test_a_dry_run_changes_nothing(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    ran = cli("apply", "-f", str(file), "--dry-run")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("9 to create, 0 to change, 0 to delete, 0 unchanged.\n")
    assert "+ quota acme team/coder  concurrent_requests: 2" in ran.out
    assert numbers(platform) == 0


def test_the_second_time_there_is_nothing_to_do(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    first = cli("apply", "-f", str(file), "--yes")
    assert first.code == 0, first.err
    (secret,) = [line for line in first.out.splitlines() if line.startswith("fb-")]
    key = platform.key_id_of(secret)
    assert cli("quota", "show", "acme", "--key", key, "--json").json["max_tokens"] == 100
    assert Decimal(cli("quota", "show", "acme", "--json").json["monthly_budget_usd"]) == Decimal("25.1")
    made = numbers(platform)
    assert made == 9

    platform.wall.now = time.time()
    second = cli("apply", "-f", str(file), "--yes", "--prune")
    assert second.out == "Nothing to do: 9 unchanged.\n"
    assert numbers(platform) == made


def test_what_differs_is_changed_and_told(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    cli("apply", "-f", str(file), "--yes")
    change(
        file,
        ("default_class: batch", "default_class: standard"),
        ('old: "1"', 'new: "2"'),
        ("25.10", "30"),
        ("output_usd_per_million: 0.4", "output_usd_per_million: 0.5"),
        ("prompt_usd_per_million: 0.1,", "prompt_usd_per_million: 0.15,"),
        ("Be brief.", "Be brief!"),
    )
    platform.wall.now = time.time()
    ran = cli("apply", "-f", str(file), "--yes")
    assert ran.code == 0, ran.err
    for line in (
        "~ tenant acme\n    default_class: batch → standard\n",
        "~ quota acme\n    monthly_budget_usd: 25.10 USD → 30.00 USD\n",
        "    tags: team=search, old=1 → team=search, new=2\n",
        "    text: 9 characters → 9 characters, not the same\n",
        "+ price chat * from now",
        "1 to create, 5 to change, 0 to delete, 3 unchanged.\n",
    ):
        assert line in ran.out, ran.out
    assert "fb-" not in ran.out
    (key,) = cli("key", "list", "--json").json["data"]
    assert key["tags"] == {"team": "search", "new": "2"}
    assert cli("apply", "-f", str(file), "--yes").out == "Nothing to do: 9 unchanged.\n"


def test_prune_deletes_what_is_not_declared(cli: Cli, file: Path) -> None:
    cli("apply", "-f", str(file), "--yes")
    cli("tenant", "create", "ops")
    cli("key", "create", "ops", "--scope", "admin", "--name", "me")
    file.write_text("tenants: [{id: beta}]\nkeys: []\nquotas: []\nprices: []\nprompts: []\n")
    assert "- tenant" not in cli("apply", "-f", str(file), "--dry-run").out
    ran = cli("apply", "-f", str(file), "--yes", "--prune")
    assert ran.code == 0, ran.err
    assert "kept: key ops me" in ran.out
    assert [row["id"] for row in cli("tenant", "list", "--json").json["data"]] == ["beta", "ops"]
    assert cli("quota", "list").out == "There are no quotas.\n"
    assert cli("prompt", "list").out == "There are no prompts.\n"
    assert len(cli("price", "list", "--json").json["data"]) == 1


def test_a_tenant_that_was_pruned_does_not_come_back(cli: Cli, file: Path) -> None:
    file.write_text("tenants: [{id: beta}, {id: gamma}]\n")
    assert cli("apply", "-f", str(file), "--yes").code == 0
    file.write_text("tenants: [{id: beta}]\n")
    assert cli("apply", "-f", str(file), "--yes", "--prune").code == 0
    file.write_text("tenants: [{id: beta}, {id: gamma}]\n")
    ran = cli("apply", "-f", str(file), "--yes")
    assert ran.code == 1
    assert "There was a tenant gamma before" in ran.err
    assert "choose another id" in ran.err


def test_it_stops_at_the_first_failure_and_goes_on_once_that_is_mended(cli: Cli, file: Path) -> None:
    change(file, ("alias: team/coder", "alias: team/codr"))
    ran = cli("apply", "-f", str(file), "--yes")
    assert ran.code == 1
    assert "did you mean team/coder" in ran.err
    assert "Failed at: create quota acme team/codr. Done before: 4." in ran.err
    assert "Not done: create prompt house/style" in ran.err
    (secret,) = [line for line in ran.out.splitlines() if line.startswith("fb-")]
    assert secret
    change(file, ("team/codr", "team/coder"))
    again = cli("apply", "-f", str(file), "--yes")
    assert again.code == 0, again.err
    assert "fb-" not in again.out
    assert "5 to create, 0 to change, 0 to delete, 4 unchanged." in again.out


def test_json_has_the_plan_the_results_and_the_secrets(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    planned = cli("apply", "-f", str(file), "--dry-run", "--json").json
    assert (len(planned["changes"]), planned["done"]) == (9, 0)
    done = cli("apply", "-f", str(file), "--yes", "--json").json
    assert (done["done"], done["failure"]) == (9, None)
    (secret,) = [row["secret"] for row in done["results"] if "secret" in row]
    assert platform.key_id_of(secret)


def test_nobody_can_be_asked(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    ran = cli("apply", "-f", str(file))
    assert ran.code == 1
    assert "--yes" in ran.err
    assert numbers(platform) == 0


def test_someone_who_is_asked_may_say_no(
    cli: Cli, platform: AdminPlatform, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _prompt: "n")
    assert "not confirmed" in cli("apply", "-f", str(file)).err
    assert numbers(platform) == 0
    monkeypatch.setattr("builtins.input", lambda _prompt: "y")
    assert cli("apply", "-f", str(file)).code == 0


def test_what_is_wrong_with_the_file_is_told_before_anything_is_asked(forebay: Cli, file: Path) -> None:
    change(file, ("default_class: batch", "default_clas: batch"))
    ran = forebay("apply", "-f", str(file), "--url", "http://127.0.0.1:1", "--api-key", "k")
    assert ran.code == 78
    assert f"{file}: tenants[0].default_clas: there is no such field; did you mean default_class?" in ran.err


def test_a_key_of_nobody_is_no_plan(cli: Cli, platform: AdminPlatform, file: Path) -> None:
    change(file, ("  - tenant: acme\n    name: search", "  - tenant: acmee\n    name: search"))
    ran = cli("apply", "-f", str(file), "--yes")
    assert ran.code == 1
    assert "keys[0].tenant: there is no tenant acmee" in ran.err
    assert numbers(platform) == 0


def test_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PLATFORM))
    ran = cli("apply", "-f", "-", "--yes")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("Done.\n")


def test_a_flag_is_no_file(cli: Cli) -> None:
    ran = cli("apply", "-f", "--dry-run")
    assert ran.code == 2
    assert "expected a file" in " ".join((ran.out + ran.err).split())


def test_the_operator_s_tenant_stays(cli: Cli, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOREBAY_CONFIG", raising=False)
    cli("tenant", "create", "default")
    ran = cli("apply", "-f", str(file), "--yes", "--prune")
    assert ran.code == 0, ran.err
    assert "kept: tenant default" in ran.out
