"""Output that cannot be written is lost, and nothing else."""

import errno
import io
import os

from forebay.core.output import LossyStream


class Full(io.BytesIO):
    """A file on a disk without room."""

    def write(self, data: object, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_can_be_written_is_written() -> None:
    inner = io.StringIO()
    print("one", file=LossyStream(inner), flush=True)
    assert inner.getvalue() == "one\n"


def test_a_full_disk_and_a_closed_file_do_no_harm() -> None:
    full = io.TextIOWrapper(Full())
    stream = LossyStream(full)
    for _ in range(10):
        print("x" * 10_000, file=stream, flush=True)
    assert not stream.isatty()
    closed = io.StringIO()
    closed.close()
    print("one", file=LossyStream(closed), flush=True)
