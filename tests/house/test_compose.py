"""docker-compose.yml: valid by the Compose specification, and as careful as the project says it is."""

from __future__ import annotations

import re
import stat
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from streams.cli.app import COMMANDS
from streams.runtime.settings import Settings, _misspelt
from tests.house.tree import ROOT, text

FILE = Path("docker-compose.yml")
COMPOSE: dict[str, Any] = yaml.safe_load(text(FILE))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {"migrate", "topics", "schemas"}
BULK = {"agents-library", "project-library", "work", "reconcile"}
PROMPT = {"serve", "agents", "project", "project-dead-letters", "project-tasks", "project-forwarding"}
ROLES = BULK | PROMPT | {"relay", "cache", "poll"}
ASKS_OTHERS = {"poll", "work", "reconcile"}
OBSERVE = {"prometheus", "grafana"}
OTHERS = {"kafka", "postgres", "registry", "valkey"} | OBSERVE

services = pytest.mark.parametrize("name", sorted(SERVICES))
ours = pytest.mark.parametrize("name", sorted(ONCE | ROLES))


def secrets(service: dict[str, Any]) -> set[str]:
    return {secret if isinstance(secret, str) else secret["source"] for secret in service.get("secrets", ())}


def secret_files(service: dict[str, Any]) -> set[str]:
    """Where the container finds its secrets."""
    return {
        f"/run/secrets/{secret if isinstance(secret, str) else secret['target']}"
        for secret in service.get("secrets", ())
    }


def test_the_file_is_valid_by_the_compose_specification() -> None:
    # Written out again without anchors and merge keys, which are YAML's and not the specification's.
    parsed = compose_spec.PyCompose.from_yaml(yaml.safe_dump(COMPOSE))
    assert set(parsed.service_names()) == set(SERVICES)
    parsed.validate()


def test_every_role_and_service_of_the_design_is_there() -> None:
    assert set(SERVICES) == ONCE | ROLES | OTHERS


@ours
def test_a_role_runs_a_command_that_exists(name: str) -> None:
    command = SERVICES[name]["command"]
    assert command[0] in COMMANDS
    assert "entrypoint" not in SERVICES[name]


@services
def test_what_may_wait_for_reports_has_an_eighth_of_the_cpu_that_others_have(name: str) -> None:
    assert SERVICES[name].get("cpu_shares") == (128 if name in BULK else None)


@services
def test_a_service_that_stays_is_watched_and_one_that_ends_is_not(name: str) -> None:
    health = SERVICES[name]["healthcheck"]
    if name in ONCE:
        assert health == {"disable": True}
        assert SERVICES[name]["restart"] == "no"
    else:
        assert health["test"][0] in {"CMD", "CMD-SHELL"}
        assert {"interval", "timeout", "retries", "start_period"} <= set(health)
        assert SERVICES[name]["restart"] == "unless-stopped"


@services
def test_what_a_service_waits_for_exists_and_says_when_it_is_ready(name: str) -> None:
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if needed in ONCE else "service_healthy"
        assert how == {"condition": wanted}
        assert needed in SERVICES


def test_watching_is_started_only_when_it_is_asked_for() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles")} == OBSERVE
    assert all(SERVICES[name]["profiles"] == ["observe"] for name in OBSERVE)


@pytest.mark.parametrize("name", sorted(ROLES))
def test_a_role_waits_until_everything_is_made(name: str) -> None:
    assert ONCE | {"kafka", "postgres"} <= set(SERVICES[name]["depends_on"])


@services
def test_a_service_has_no_rights_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & set(service)
    assert "docker.sock" not in str(service)
    if name != "kafka":
        assert service["read_only"] is True


@ours
def test_a_role_is_nobody_in_particular(name: str) -> None:
    assert SERVICES[name]["user"] == "10001:10001"
    assert SERVICES[name]["init"] is True


@services
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
    if SERVICES[name].get("ports"):
        assert "outside" in SERVICES[name]["networks"]


def test_there_is_no_way_out_but_for_published_ports_and_for_asking_media_servers() -> None:
    assert COMPOSE["networks"]["inside"]["internal"] is True
    for name, service in SERVICES.items():
        out = service.get("ports") or name in ASKS_OTHERS
        assert service["networks"] == (["inside", "outside"] if out else ["inside"]), name


@services
def test_an_image_is_pinned_by_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.search(r":v?\d+\.\d+(\.\d+)?$", image), image
    if name in ONCE | ROLES:
        assert image == f"playhead:{version('playhead')}"


@services
def test_no_secret_is_in_the_environment(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        if re.search(r"PASSWORD|SECRET|KEY|TOKEN", variable):
            assert variable.endswith("_FILE"), variable
            assert value in secret_files(SERVICES[name]), f"{variable}: {value} is not mounted"
    assert "env_file" not in SERVICES[name]


@services
def test_a_service_gets_the_secrets_it_uses_and_no_others(name: str) -> None:
    assert secrets(SERVICES[name]) <= set(COMPOSE["secrets"])
    if name in ROLES:
        used = set(re.findall(r"/run/secrets/([\w.]+)", str(SERVICES[name])))
        assert secrets(SERVICES[name]) == used


@ours
def test_the_settings_of_a_role_are_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = SERVICES[name]["environment"]
    assert list(_misspelt(environment)) == []
    for variable, value in environment.items():
        if not variable.endswith("_FILE"):
            monkeypatch.setenv(variable, value)
    settings = Settings.load()
    assert settings.kafka.bootstrap == "kafka:9092"
    assert settings.postgres.host == "postgres"


def test_every_secret_is_made_by_the_script_and_never_twice(tmp_path: Path) -> None:
    script = ROOT / "docker" / "make-secrets"
    folder = tmp_path / "a clone"
    folder.mkdir()
    subprocess.run([script], cwd=folder, check=True, timeout=60)
    made = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    assert set(made) == {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} == set(COMPOSE["secrets"])
    assert len(set(made.values())) == len(made)
    assert all(len(value.strip()) >= 32 for value in made.values())
    assert made["superuser"].strip() in made["superuser_url"]
    assert made["registry_properties"].strip() == f"apicurio.datasource.password={made['registry'].strip()}"
    assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o700
    subprocess.run([script], cwd=folder, check=True, timeout=60)
    assert {path.name: path.read_text() for path in (folder / "secrets").iterdir()} == made


def test_secrets_are_not_committed() -> None:
    assert "/secrets/" in text(Path(".gitignore")).splitlines()


def test_the_brokers_topics_are_made_by_us_only() -> None:
    assert SERVICES["kafka"]["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_registry_keeps_its_ids_over_a_restart() -> None:
    assert SERVICES["registry"]["environment"]["APICURIO_STORAGE_KIND"] == "sql"


DOCKERFILE = text(Path("Dockerfile"))


def test_the_image_is_built_from_locks_and_runs_as_nobody_in_particular() -> None:
    assert DOCKERFILE.count("--require-hashes") == 2
    assert "locks/image.txt" in DOCKERFILE
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.M)
    assert re.search(r"^HEALTHCHECK .*streams\.cli\.health", DOCKERFILE, re.M)
    assert re.search(r'^ENTRYPOINT \["playhead"\]$', DOCKERFILE, re.M)
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert stages == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", DOCKERFILE, re.M)


def test_the_image_is_given_every_file_it_copies() -> None:
    allowed = {line[1:] for line in text(Path(".dockerignore")).splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M):
        for source in line.split()[:-1]:
            assert source.split("/")[0] in allowed, source
            assert (ROOT / source).exists(), source
