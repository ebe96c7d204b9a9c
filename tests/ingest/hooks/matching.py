"""What the example files of `playhead parse` have beyond plain matchers; tests/examples/README.md tells."""

from __future__ import annotations

import json
from typing import Any

from tests.matchers import folded, matches


def fits_object(expected: dict[str, Any], printed: dict[str, Any]) -> bool:
    """Whether a printed object has every field of the expected one; `user` and `media` in either spelling."""
    for name, wanted in expected.items():
        if name == "$or":
            if not any(fits_object(choice, printed) for choice in wanted):
                return False
        elif name == "$deep":
            whole = folded(json.dumps(printed, ensure_ascii=False))
            if not all(folded(text) in whole for text in wanted):
                return False
        elif not matches(wanted, _value(name, printed)):
            return False
    return True


def _value(name: str, printed: dict[str, Any]) -> Any:
    value = printed.get(name)
    return printed.get(f"upstream_{name}") if value is None and name in ("user", "media") else value
