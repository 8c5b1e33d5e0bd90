"""Run a command that cannot outlive its parent.

`python guard.py FD COMMAND…` runs the command in a process group of its own and ends the whole group as soon as FD,
the read end of a pipe that the parent holds, reaches its end: when the parent closes it, and when the parent is killed.
Standard library only, so that any Python can run it.
"""

import os
import select
import signal
import subprocess
import sys
import time

_GRACE_S = 5.0
_POLL_S = 0.25


def main() -> int:
    lifeline = int(sys.argv[1])
    child = subprocess.Popen(sys.argv[2:], start_new_session=True)
    # The group must end with the parent, not with a signal that was meant for the parent.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        while child.poll() is None:
            readable, _, _ = select.select([lifeline], [], [], _POLL_S)
            if readable:
                break
    finally:
        _end_group(child)
    return child.returncode


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, a little time, SIGKILL; what the command started goes with it."""
    _signal_group(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S / 5)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
