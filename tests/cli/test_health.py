"""The containers' health check."""

from __future__ import annotations

import subprocess
import sys

from streams.cli.health import healthy, main
from streams.local.ports import choose
from tests.schemas.stub_registry import serving


def test_a_service_that_answers_2xx_is_healthy_and_no_other() -> None:
    with serving() as stub:
        stub.override["/fine"] = (204, b"")
        stub.override["/busy"] = (503, b"")
        assert healthy(f"{stub.url}/fine")
        assert not healthy(f"{stub.url}/busy")
        assert not healthy(f"{stub.url}/absent")
        assert main([f"{stub.url}/busy", f"{stub.url}/fine"]) == 0
        assert main([f"{stub.url}/busy"]) == 1
    assert not healthy(f"http://127.0.0.1:{choose()}/")
    assert not healthy("file:///etc/hostname")
    assert not healthy("nonsense")


def test_the_check_imports_nothing_heavy() -> None:
    code = (
        "import sys, streams.cli.health\n"
        "print(sorted({'typer', 'rich', 'pydantic', 'structlog', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
