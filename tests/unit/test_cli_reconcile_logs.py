"""What is read of engines' logs."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from forebay.cli.admin.reconcile_logs import EngineLog, local_logs, logs_of, read_logs
from forebay.core.errors import InvalidRequest
from forebay.core.telemetry import configure_logging
from forebay.metering.reconciliation import EngineBooks, EngineCount
from forebay.metering.usage import TokenUsage

AT = 1_793_534_400.0
"""2026-11-01T12:00:00Z."""


def line(id_: str, second: int = 0, output: int = 25, **more: object) -> str:
    told = {"request_id": id_, "prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": output}
    told |= {"finish_reason": "stop", "event": "generated", "level": "info"}
    return json.dumps(told | {"timestamp": f"2026-11-01T12:00:{second:02}.000000Z"} | more) + "\n"


def books(*files: Path) -> EngineBooks:
    return read_logs(logs_of(files))


def used(output: int = 25, times: int = 1) -> TokenUsage:
    return TokenUsage(prompt_tokens=100 * times, cached_tokens=40 * times, output_tokens=output * times)


def test_garbage_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "large-0.log"
    garbage = [
        b"",
        b"Traceback (most recent call last):",
        b"\xff\xfe generated {\xff",
        b"{" * 200_000 + b" generated",
        line("a", event="asked").encode(),
        line("b", prompt_tokens="many").encode(),
        line("c", timestamp="yesterday").encode(),
        b'{"event": "generated"}',
        b"[]  generated",
        b"2026-11-01T12:00:00Z [info     ] generated   request_id=d prompt_tokens=1",
    ]
    log.write_bytes(b"\n".join([*garbage, line("good", 5).encode(), line("torn").encode()[:60]]))
    assert books(log).counts == {"good": EngineCount("large-0", AT + 5, used())}


def test_what_the_log_reaches_back_to_is_its_first_time(tmp_path: Path) -> None:
    log, empty = tmp_path / "large-0.log", tmp_path / "empty.log"
    begins = json.dumps({"event": "loaded", "until": "2020-01-01T00:00:00Z", "timestamp": "2026-11-01T12:00:07Z"})
    log.write_text(f"no time\n{begins}\n{line('a', 9)}")
    empty.touch()
    assert books(log, empty).begins == {"large-0": AT + 7}


def test_a_rotated_log_is_one_even_where_a_line_is_in_both_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    cut = line("b", 2)
    (folder / "large-0.log.1").write_text(line("a", 1) + cut[:50])
    (folder / "large-0.log").write_text(cut[50:] + line("c", 3))
    (folder / "small-0.log").write_text(line("d", 4))
    (folder / "notes.txt").write_text(line("e"))
    read = read_logs(local_logs(tmp_path))
    assert {id_: count.log for id_, count in read.counts.items()} == {
        **dict.fromkeys("abc", "large-0"),
        "d": "small-0",
    }
    assert read.begins == {"large-0": AT + 1, "small-0": AT + 4}


def test_a_log_that_is_rotated_meanwhile_is_read_once(tmp_path: Path) -> None:
    new, old = tmp_path / "large-0.log", tmp_path / "large-0.log.1"
    old.write_text(line("a"))
    new.hardlink_to(old)
    assert books(new, old).counts["a"].tokens == used()
    new.unlink()
    assert books(new, old).counts["a"].tokens == used()


def test_older_files_are_read_in_their_order(tmp_path: Path) -> None:
    names = ["vllm.log", "vllm.log.1", "vllm.log.2", "vllm.log.10"]
    (log,) = logs_of(tmp_path / name for name in names)
    assert log == EngineLog("vllm", [tmp_path / name for name in reversed(names)])


def test_logs_of_the_same_name_in_two_places_are_two(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "vllm.log", tmp_path / "b" / "vllm.log"
    assert [log.name for log in logs_of([first, second, first])] == ["vllm", str(second)]


def test_a_line_that_is_there_twice_counts_once_and_a_request_that_ran_twice_twice(tmp_path: Path) -> None:
    one, copy = tmp_path / "one.log", tmp_path / "copy.log"
    one.write_text(line("a", 1) + line("b", 2) + line("b", 3))
    copy.write_text(line("a", 1))
    counts = books(one, copy).counts
    assert (counts["a"].tokens, counts["b"].tokens, counts["b"].at) == (used(), used(times=2), AT + 3)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_both_formats_of_an_engine(tmp_path: Path, log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    configured = structlog.get_config()
    try:
        configure_logging("info", log_format)  # pyright: ignore[reportArgumentType]
        structlog.get_logger().info(
            "generated",
            request_id="client/1=a",
            prompt_tokens=100,
            cached_tokens=40,
            completion_tokens=25,
            finish_reason="stop",
        )
    finally:
        structlog.configure(**configured)
    printed = capsys.readouterr().err
    assert printed.startswith("{") == (log_format == "json")
    log = tmp_path / "engine.log"
    log.write_text(printed)
    read = books(log)
    assert read.counts["client/1=a"].tokens == used()
    assert read.begins == {"engine": read.counts["client/1=a"].at}


def test_colours_and_what_collectors_put_before_a_line(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    render = structlog.dev.ConsoleRenderer(colors=True)
    event = json.loads(line("coloured", 1))
    log.write_text(f"{render(None, 'info', event)}\nNov 01 12:00:02 host engine[7]: {line('prefixed', 2)}")
    read = books(log)
    assert {id_: count.at for id_, count in read.counts.items()} == {"coloured": AT + 1, "prefixed": AT + 2}
    assert read.begins == {"engine": AT + 1}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(line("a").encode())))
    assert set(books(Path("-")).counts) == {"a"}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"there is no .*x\.log"):
        books(tmp_path / "x.log")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        books(tmp_path)
    with pytest.raises(InvalidRequest, match="there are none in"):
        local_logs(tmp_path)
