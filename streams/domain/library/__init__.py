"""The library: what scans and hooks saw, and what that means."""
