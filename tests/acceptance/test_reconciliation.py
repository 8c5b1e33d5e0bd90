"""What is billed is what the engines counted, and an operator sees where it is not."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.operated import Operated, chat, operated, write_configuration
from tests.acceptance.processes import run_forebay, until

BRIEF_REQUESTS = 4


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[tuple[Operated, Path]]:
    """A platform that has answered some requests, of which one was left in mid-stream, and its directory."""
    directory = tmp_path_factory.mktemp("reconciled")
    write_configuration(directory, tiny_models)
    with operated(directory) as platform:
        key = platform.key(platform.tenant())["secret"]
        client = platform.client(key)
        for number in range(BRIEF_REQUESTS):
            client.chat.completions.create(**chat(f"Hello {number}."))
        assert len(list(client.chat.completions.create(**chat("Stream.", stream=True)))) > 1
        left = client.chat.completions.create(**chat("Go on.", "endless", stream=True, max_tokens=20_000))
        for _ in range(5):
            next(left)
        left.close()
        until("all have ended", lambda: platform.requests(key) == BRIEF_REQUESTS + 2, platform.process.process)
        assert {row["status"]: row["requests"] for row in platform.usage(key, "status")} == {
            "completed": BRIEF_REQUESTS + 1,
            "client_left": 1,
        }
        yield platform, directory


def reconcile(used: tuple[Operated, Path], *arguments: str) -> tuple[int, str]:
    platform, directory = used
    ran = run_forebay(["usage", "reconcile", *arguments], directory, {"FOREBAY_URL": platform.process.root})
    assert not ran.stderr
    return ran.returncode, ran.stdout


def test_nothing_drifts_until_a_log_says_otherwise(used: tuple[Operated, Path]) -> None:
    total = BRIEF_REQUESTS + 2
    code, out = reconcile(used)
    assert (code, out.splitlines()[-1]) == (0, f"No drift: {total} compared.")
    code, out = reconcile(used, "--grace", "0s", "--json")
    assert code == 0, out
    told = json.loads(out)
    assert told["findings"] == {"agrees": total}
    assert {row["pool"]: row["requests"] for row in told["data"]} == {"brief": total - 1, "endless": 1}

    log = used[1] / "data" / "logs" / "brief-0.log"
    lines = log.read_text().splitlines(keepends=True)
    (place, told), *_ = [(place, json.loads(line)) for place, line in enumerate(lines) if '"generated"' in line]
    lines[place] = json.dumps(told | {"completion_tokens": told["completion_tokens"] + 1}) + "\n"
    log.write_text("".join(lines))
    code, out = reconcile(used, "--by", "request", "--json")
    assert code == 1
    (row,) = json.loads(out)["data"]
    assert (row["id"], row["pool"], row["finding"], row["drift"]) == (told["request_id"], "brief", "differs", True)
    assert row["difference"] == {"prompt_tokens": 0, "cached_tokens": 0, "output_tokens": -1}
    code, out = reconcile(used)
    assert (code, out.splitlines()[-1]) == (1, f"Drift: {total} compared, of which 1 differs.")


def test_a_metric_tells_how_much_the_engines_counted(used: tuple[Operated, Path]) -> None:
    lines = used[0].process.get("/metrics").decode().splitlines()
    counted = {line for line in lines if line.startswith("forebay_usage_counted_total{")}
    expected = {("brief", "engine"): float(BRIEF_REQUESTS + 1), ("endless", "engine"): 1.0}
    assert counted == {
        f'forebay_usage_counted_total{{counted="{how}",pool="{pool}"}} {expected.get((pool, how), 0.0)}'
        for pool in ("brief", "endless")
        for how in ("engine", "last_seen", "estimated")
    }
