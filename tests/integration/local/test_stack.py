"""The stack as a whole: killed and started again, offline, refused, as another user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from streams.local import Cache, Stack, cache_directory, ports
from streams.local.errors import (
    BootFailedError,
    FolderInUseError,
    LocalStackError,
    NoNetworkError,
    PortTakenError,
)
from streams.local.manifest import load
from streams.local.processes import wait_until
from streams.local.unprivileged import external_data
from tests.integration.local.owner import refuse
from tests.integration.local.test_services import consume, produce
from tests.local.fake_service import lives

pytestmark = [pytest.mark.services, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
Make = Callable[..., Stack]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a space in its path, gone with all that belongs to it after the test."""
    outer = Path(tempfile.mkdtemp(prefix="playhead-test-"))
    inner = outer / "a stack"
    inner.mkdir()
    yield inner
    if outside := external_data(inner / "postgres"):
        shutil.rmtree(outside, ignore_errors=True)
    shutil.rmtree(outer)


class Owner:
    """A process that runs a stack, to be killed."""

    def __init__(self, folder: Path, *kinds: str, user: int | None = None, environ: dict[str, str] | None = None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.local.owner", str(folder), *kinds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environ,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline().split()
        assert line, self.process.stderr.read()
        self.bootstrap, self.postgres_url, self.registry_url, *pids = line
        self.pids = [int(pid) for pid in pids]

    def end(self) -> str:
        """Let it stop its stack; what it printed."""
        output, errors = self.process.communicate("\n", 60)
        assert self.process.returncode == 0, errors
        return output

    def kill_everything(self) -> None:
        """SIGKILL to the owner, its guard and all services at once."""
        everyone = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in everyone:
            process.kill()
        self.process.communicate()
        assert wait_until(lambda: not any(lives(pid) for pid in self.pids), 20)


@pytest.mark.faults
def test_given_everything_killed_then_a_start_on_the_folder_finds_records_rows_and_schema_ids(
    folder: Path, private_stack: Make
) -> None:
    owner = Owner(folder, "kafka", "postgres", "registry")
    produce(owner.bootstrap, "kept", b"record")
    with psycopg.connect(owner.postgres_url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (42)")
    first = Schema('{"type": "record", "name": "First", "fields": []}', "AVRO")
    second = Schema('{"type": "record", "name": "Second", "fields": []}', "AVRO")
    with SchemaRegistryClient({"url": owner.registry_url}) as registry:
        first_id = registry.register_schema("first", first)
    owner.kill_everything()

    stack = private_stack(folder, registry=True)
    addresses = stack.addresses
    # Clients that remember the old addresses find the stack again.
    assert (addresses.bootstrap, addresses.registry_url) == (owner.bootstrap, owner.registry_url)
    assert consume(owner.bootstrap, "kept") == b"record"
    with psycopg.connect(owner.postgres_url) as connection:
        assert connection.execute("SELECT x FROM kept").fetchone() == (42,)
    with SchemaRegistryClient({"url": owner.registry_url}) as registry:
        assert registry.register_schema("second", second) > first_id
        kept = registry.get_schema(first_id).schema_str
        assert kept is not None
        assert json.loads(kept)["name"] == "First"
        assert registry.register_schema("first", first) == first_id


@pytest.mark.faults
def test_given_only_the_owner_killed_then_its_services_end_and_the_folder_is_free(
    folder: Path, private_stack: Make
) -> None:
    owner = Owner(folder, "postgres", "valkey")
    owner.process.kill()
    owner.process.communicate()
    stack = private_stack(folder, kafka=False, valkey=True)
    assert stack.postgres.answers()
    assert not any(lives(pid) for pid in owner.pids)


def test_given_a_whole_cache_then_the_stack_starts_without_any_network(folder: Path, kafka_bootstrap: str) -> None:
    # The shared broker has filled the cache for Kafka; the registry's part is filled here if it was not.
    cache = Cache(cache_directory(os.environ))
    cache.ensure(load().kafka)
    cache.ensure(load().registry)
    owner = Owner(folder, "kafka", "postgres", "registry", "valkey", "offline")
    assert owner.end() == "jgo loaded: False\n"
    assert kafka_bootstrap != owner.bootstrap


def test_given_a_truncated_jar_then_it_is_fetched_again_and_never_used(tmp_path: Path) -> None:
    kafka = load().kafka
    good = Cache(cache_directory(os.environ)).ensure(kafka)
    damaged = tmp_path / "cache" / kafka.folder
    shutil.copytree(good, damaged)
    victim = next(path for path in sorted(damaged.iterdir()) if path.name.startswith("kafka-raft"))
    victim.write_bytes(victim.read_bytes()[:-100])
    with pytest.raises(NoNetworkError, match=victim.name):
        Cache(tmp_path / "cache", fetch=refuse).ensure(kafka)
    # With the network, through jgo.
    Cache(tmp_path / "cache").ensure(kafka)
    assert victim.read_bytes() == (good / victim.name).read_bytes()


def test_given_no_network_at_first_use_then_nothing_runs_and_the_folder_is_free(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "data", cache=Cache(tmp_path / "cache", fetch=refuse))
    with pytest.raises(NoNetworkError, match="first start needs a network connection"):
        stack.start()
    assert not stack.started
    assert not [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_arguments(p))]
    outside = external_data(tmp_path / "data" / "postgres")
    if outside is not None:
        shutil.rmtree(outside)


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def test_given_a_stack_on_a_folder_then_a_second_one_is_refused(tmp_path: Path, private_stack: Make) -> None:
    first = private_stack(tmp_path / "data", kafka=False, postgres=False, valkey=True)
    with pytest.raises(FolderInUseError, match=f"process {os.getpid()}"):
        Stack(tmp_path / "data", kafka=False, postgres=False, valkey=True).start()
    assert first.valkey.answers()
    first.stop()
    private_stack(tmp_path / "data", kafka=False, postgres=False, valkey=True)


def test_given_another_process_on_the_folder_then_a_stack_is_refused(folder: Path) -> None:
    owner = Owner(folder, "valkey")
    with pytest.raises(FolderInUseError, match=f"process {owner.process.pid}"):
        Stack(folder, kafka=False, postgres=False, valkey=True).start()
    owner.end()


def test_given_a_remembered_port_that_was_taken_then_another_is_used(tmp_path: Path, private_stack: Make) -> None:
    first = private_stack(tmp_path / "data", kafka=False, postgres=False, valkey=True)
    old = first.valkey.port
    first.stop()
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, old))
        other.listen(1)
        second = private_stack(tmp_path / "data", kafka=False, postgres=False, valkey=True)
        assert second.valkey.port != old


def test_given_kafka_on_other_ports_than_before_then_its_records_are_there(tmp_path: Path, private_stack: Make) -> None:
    first = private_stack(tmp_path / "data", postgres=False)
    produce(first.kafka.bootstrap, "kept", b"record")
    first.stop()
    (tmp_path / "data" / "ports.json").unlink()
    second = private_stack(tmp_path / "data", postgres=False)
    assert consume(second.kafka.bootstrap, "kept") == b"record"


def test_given_a_fixed_port_that_is_taken_then_the_error_names_it(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen(1)
        taken = other.getsockname()[1]
        stack = Stack(tmp_path, kafka=False, postgres=False, valkey=True, ports={"valkey": taken})
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{taken}"):
            stack.start()
    assert not stack.started


@pytest.mark.faults
def test_given_a_service_that_cannot_start_then_the_others_are_stopped_too(tmp_path: Path) -> None:
    broken = tmp_path / "data" / "kafka"
    broken.mkdir(parents=True)
    # Says that the broker ran here, but there is no data: Kafka refuses to start.
    (broken / "formatted").touch()
    stack = Stack(tmp_path / "data", postgres=False, valkey=True)
    with pytest.raises(BootFailedError, match="kafka did not start") as caught:
        stack.start()
    assert caught.value.tail.strip()
    assert not stack.started
    Stack(tmp_path / "data", kafka=False, postgres=False, valkey=True, ports=None).stop()


def test_given_a_half_done_first_start_then_the_next_one_begins_anew(tmp_path: Path, private_stack: Make) -> None:
    # A kill during the format, and during initdb.
    (tmp_path / "data" / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "data" / "kafka" / "data" / "meta.properties.tmp").touch()
    (tmp_path / "data" / "postgres" / "data.new").mkdir(parents=True)
    (tmp_path / "data" / "postgres" / "data.new" / "PG_VERSION").touch()
    stack = private_stack(tmp_path / "data")
    assert stack.kafka.answers()
    assert stack.postgres.answers()


def test_given_a_stack_without_folder_then_nothing_is_left_after_stop() -> None:
    stack = Stack(kafka=False, postgres=True)
    stack.start()
    folder = stack.folder
    outside = external_data(folder / "postgres")
    stack.stop()
    assert not folder.exists()
    assert outside is None or not outside.exists()


def test_given_a_registry_without_a_database_then_it_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="postgres=True"):
        Stack(postgres=False, registry=True)


def test_given_a_stack_that_is_not_started_then_its_services_say_so() -> None:
    with pytest.raises(LocalStackError, match="not started"):
        _ = Stack().kafka


def test_given_an_ordinary_user_then_the_stack_starts(tmp_path: Path) -> None:
    # As root this becomes another user, if that user can run this interpreter; else it stays who it is.
    user: int | None = None
    home = Path(tempfile.mkdtemp(prefix="playhead-user-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody").pw_uid
        try:
            subprocess.run([sys.executable, "-c", "import streams.local"], user=nobody, check=True, cwd=ROOT)
        except (PermissionError, subprocess.CalledProcessError):
            nobody = 0
        user = nobody or None
        os.chown(home, nobody, -1)
    cache = home / "cache"
    shutil.copytree(Cache(cache_directory(os.environ)).ensure(load().kafka), cache / load().kafka.folder)
    environ = {**os.environ, "HOME": str(home), "PLAYHEAD_CACHE": str(cache)}
    owner = Owner(home / "data", "kafka", "postgres", "valkey", "offline", user=user, environ=environ)
    produce(owner.bootstrap, "user", b"record")
    uids = {psutil.Process(pid).uids().effective for pid in owner.pids}
    owner.end()
    if user is not None:
        assert uids == {user}
    if outside := external_data(home / "data" / "postgres"):
        shutil.rmtree(outside)
    shutil.rmtree(home)
