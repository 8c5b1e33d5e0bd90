"""Forebay: shared, metered, fair LLM inference behind one OpenAI-compatible door."""
