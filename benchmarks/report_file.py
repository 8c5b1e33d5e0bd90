"""`benchmarks/RESULTS.md`: each benchmark writes its own part of it."""

import re
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
