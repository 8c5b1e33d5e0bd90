"""Identifiers: a prefix that says what it names, and 128 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """For example `chatcmpl-9f86d081884c7d659a2feaa0c55ad015`."""
    return f"{prefix}-{secrets.token_hex(16)}"
