"""What is wrong with an event that its schema allows."""

from __future__ import annotations


class Invalid(ValueError):
    """The event can never be applied, by any state: poison for who reads it."""
