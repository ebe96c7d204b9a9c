"""Scans: what a source holds, told to the log."""
