"""`python pinned.py CORE PID_FILE COMMAND…`: become the command, on that core alone, and tell the process id.

Standard library only, so that any Python can run it.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    core, pid_file, command = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    os.sched_setaffinity(0, {core})
    pid_file.write_text(str(os.getpid()))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
