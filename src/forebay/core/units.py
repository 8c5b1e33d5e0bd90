"""Sizes for people."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def format_bytes(size: int) -> str:
    """`size` bytes in the largest binary unit that leaves at least 1: `512 B`, `1.5 MiB`, `23.4 GiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
