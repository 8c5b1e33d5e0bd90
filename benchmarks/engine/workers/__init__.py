"""Engines in a process of their own, driven over its pipes; see `pipe_client.py` for the protocol."""
