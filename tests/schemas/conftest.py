"""Where nothing can be compiled, what only the compiled codec can show is not collected."""

from __future__ import annotations

from tests.schemas.implementations import IMPLEMENTATIONS, IN_CI, sanitizers

collect_ignore: list[str] = []
if "compiled" not in IMPLEMENTATIONS:
    collect_ignore += ["test_compiled_against_fastavro.py", "test_compiled_build.py"]
if not sanitizers() and not IN_CI:
    collect_ignore.append("test_compiled_sanitized.py")
