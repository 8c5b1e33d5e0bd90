"""Structured output: what a text must match, compiled once and followed token by token."""
