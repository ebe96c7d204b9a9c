"""The outside world's way into the log: doors (http), parsers (hooks) and pollers."""
