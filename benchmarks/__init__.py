"""Benchmarks of Forebay, each run by one command: see README.md."""
