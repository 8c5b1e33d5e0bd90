"""The `forebay` command."""

from forebay.cli.main import main

__all__ = ["main"]
