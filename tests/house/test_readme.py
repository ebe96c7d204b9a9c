"""The README's tables are those of the code. To write them again: python -m tests.house.test_readme"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.cli.app import COMMANDS
from streams.runtime.settings import described
from tests.house.tree import ROOT, files, text

README = Path("README.md")


def commands() -> str:
    rows = [f"| `playhead {name}` | {command.help} |" for name, command in COMMANDS.items()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def settings() -> str:
    rows = [
        f"| `{variable}` | {f'`{default}`' if default else ''} | {what} |" for variable, default, what in described()
    ]
    return "\n".join(["| variable | default | what it is |", "|---|---|---|", *rows])


TABLES = {"commands": commands, "settings": settings}


def rewritten(readme: str) -> str:
    for name, table in TABLES.items():
        before, opened, rest = readme.partition(f"<!-- {name} -->\n")
        _, closed, after = rest.partition(f"<!-- /{name} -->")
        readme = f"{before}{opened}{table()}\n{closed}{after}"
    return readme


def test_the_tables_of_commands_and_settings_are_up_to_date() -> None:
    assert all(f"<!-- {name} -->" in text(README) for name in TABLES)
    assert text(README) == rewritten(text(README)), "run: python -m tests.house.test_readme"


def test_every_setting_says_what_it_is_for() -> None:
    assert [variable for variable, _, what in described() if not what] == []


@pytest.mark.parametrize("path", files("README.md"), ids=str)
def test_a_link_to_a_file_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", text(path)):
        assert (ROOT / path.parent / target).exists(), target


def test_every_make_target_it_names_exists() -> None:
    makefile = text(Path("Makefile"))
    for target in set(re.findall(r"`make ([a-z-]+)", text(README))):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_place_in_tests_it_names_exists() -> None:
    for place in set(re.findall(r"\btests/[a-z/._]*[a-z]", text(README))):
        assert (ROOT / place).exists(), place


def test_the_exit_codes_are_those_of_the_code() -> None:
    from streams.runtime import errors

    named = {int(code) for code in re.findall(r"^\| (\d+) \|", text(README), re.M)}
    of_code = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert named == of_code | {0, 2}


if __name__ == "__main__":
    (ROOT / README).write_text(rewritten(text(README)), encoding="utf-8")
