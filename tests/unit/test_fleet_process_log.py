"""A child's output is kept, within bounds."""

from pathlib import Path

from structlog.testing import capture_logs

from forebay.fleet.drivers.process_log import TAIL_LINES, ProcessLog


def test_all_is_in_the_file_and_the_end_in_memory(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(100)) + "no end"
    with ProcessLog(tmp_path / "deep" / "a.log", 1_000_000) as log:
        for at in range(0, len(text), 7):
            log.write(text[at : at + 7].encode())
        tail = list(log.tail())
    assert (tmp_path / "deep" / "a.log").read_text() == text
    assert tail == [*(f"line {number}" for number in range(100 - TAIL_LINES + 1, 100)), "no end"]


def test_the_files_are_bounded(tmp_path: Path) -> None:
    with ProcessLog(tmp_path / "a.log", 1000) as log:
        for number in range(1000):
            log.write(f"{number:09}\n".encode())
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["a.log", "a.log.1"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert (tmp_path / "a.log").read_text().endswith("000000999\n")


def test_an_endless_line_and_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    with ProcessLog(tmp_path / "a.log", 1_000_000) as log:
        for _ in range(100):
            log.write(b"\xff" * 10_000)
        assert sum(map(len, log.tail())) <= 2000
        log.write(b"\nend\n")
        assert log.tail()[-1].endswith("end")


def test_a_second_life_appends(tmp_path: Path) -> None:
    for word in ("one\n", "two\n"):
        with ProcessLog(tmp_path / "a.log", 1000) as log:
            log.write(word.encode())
    assert (tmp_path / "a.log").read_text() == "one\ntwo\n"


def test_a_full_disk_loses_the_log_and_nothing_else() -> None:
    with ProcessLog(Path("/dev/full"), 1000) as log, capture_logs() as told:
        for word in (b"one\n", b"two\n"):
            log.write(word)
        assert log.tail() == ("one", "two")
    assert [entry["reason"] for entry in told] == ["No space left on device"]


def test_what_cannot_be_moved_away_is_not_the_child_s_concern_and_may_come_right(tmp_path: Path) -> None:
    in_the_way = tmp_path / "a.log.1" / "something"
    in_the_way.mkdir(parents=True)
    with ProcessLog(tmp_path / "a.log", 10) as log:
        for word in (b"12345678\n", b"lost\n", b"lost\n"):
            log.write(word)
        assert log.tail() == ("12345678", "lost", "lost")
        in_the_way.rmdir()
        in_the_way.parent.rmdir()
        log.write(b"kept\n")
    assert (tmp_path / "a.log").read_text() == "kept\n"
    assert (tmp_path / "a.log.1").read_text() == "12345678\n"
