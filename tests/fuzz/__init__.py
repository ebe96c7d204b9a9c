"""Fuzzing of the parsers: `python -m tests.fuzz`; README.md tells how."""
