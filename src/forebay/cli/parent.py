"""A process that must not outlive the one that started it."""

import os
import threading

EXIT_PARENT_GONE = 1
STANDARD_INPUT = 0


def exit_with_parent() -> None:
    """End this process at once when its standard input ends: when the parent, which holds the other end, is gone.

    Nobody is left to answer to, so nothing is drained, whatever this process is doing.
    """
    threading.Thread(target=_exit_when_input_ends, daemon=True, name="parent-watch").start()


def _exit_when_input_ends() -> None:
    # Not through sys.stdin: its lock, held by a daemon thread, would abort the interpreter when it ends.
    while os.read(STANDARD_INPUT, 1):
        pass
    os._exit(EXIT_PARENT_GONE)
