"""`benchmarks/RESULTS.md`: each benchmark has its own part of it.

`python -m benchmarks.report_file NAME` takes a part's text as it was printed from its standard input.
"""

import re
import sys
from pathlib import Path

RESULTS_FILE = Path(__file__).with_name("RESULTS.md")


def write_part(name: str, text: str) -> None:
    """Put `text` in place of the part `name`, which stands between its two comments."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    whole = RESULTS_FILE.read_text()
    parts = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not parts.search(whole):
        raise SystemExit(f"{RESULTS_FILE} has no part {name!r}: write its two comments where it belongs")
    RESULTS_FILE.write_text(parts.sub(lambda _: f"{begin}{text.strip()}{end}", whole))


if __name__ == "__main__":
    write_part(sys.argv[1], f"```\n{sys.stdin.read().strip()}\n```")
