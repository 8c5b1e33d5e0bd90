"""Streams that come and go at random for minutes: what is left of them, and how memory went."""
