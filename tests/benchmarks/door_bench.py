"""What the door takes: single reports and batches over HTTP, beside a bare FastAPI endpoint that only produces.

    python -m tests.benchmarks.door_bench [--seconds 10] [--senders 32] [--out FILE]

The embedded Kafka and PostgreSQL, the server in a process of its own, the senders in this one: raw keep-alive
connections, each sending its next request when the last is answered. Both servers run the same uvicorn settings and
answer after acks=all; the bare one checks no token, reads nothing of the body, knows nobody. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import secrets
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request

from streams.local import Stack
from streams.local.unprivileged import temporary_folder
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings

PEOPLE, MEDIA = 500, 20
BATCH, BATCH_SENDERS = 1_000, 4
RSS_EVERY_S = 0.5
READY_S = 30.0


# --- the servers


def serve(kind: str, bootstrap: str, conninfo: dict[str, Any], folder: Path) -> None:
    """Run one of the two servers until it is killed; its first line is ``port token``."""
    import socket

    import uvicorn

    from streams.runtime import logs

    with (folder / f"{kind}.log").open("w") as stream:
        logs.configure("serve", stream=stream)
        logging.getLogger("librdkafka").setLevel(logging.ERROR)
        app, token = door(bootstrap, conninfo, folder) if kind == "door" else bare(bootstrap)
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        print(listening.getsockname()[1], token, flush=True)
        server = uvicorn.Server(uvicorn.Config(app, access_log=False, log_config=None, server_header=False))
        server.run(sockets=[listening])


def door(bootstrap: str, conninfo: dict[str, Any], folder: Path) -> tuple[Any, str]:
    """The real one, with its spool, as `playhead serve` puts it together, and without limits of rate."""
    from contextlib import asynccontextmanager

    from streams.ingest.http import ingest_router
    from streams.runtime.edge import Limits
    from streams.runtime.web import build_app
    from tests.integration.ingest.house import House

    house = House(bootstrap, conninfo, folder)

    @asynccontextmanager
    async def lifespan(_: Any) -> Any:
        async with house.ingest:
            yield

    app = build_app("bench", limits=Limits(), lifespan=lifespan)
    app.include_router(ingest_router(house.ingest.door, house.ingest.guard, house.ingest.commands))
    return app, house.token


def bare(bootstrap: str) -> tuple[Any, str]:
    """An endpoint that produces the body and answers when all replicas have it."""
    from contextlib import asynccontextmanager

    from schemas.placement import PARTITIONS
    from schemas.topics import PLAYBACK_REPORTED
    from streams.runtime.publisher import KafkaPublisher, Record

    publisher = KafkaPublisher({"bootstrap.servers": bootstrap}, timeout_s=5)

    @asynccontextmanager
    async def lifespan(_: Any) -> Any:
        async with publisher:
            yield

    app = FastAPI(lifespan=lifespan)
    sent = 0

    @app.post("/v1/playback", status_code=202)
    async def report(request: Request) -> dict[str, int]:
        nonlocal sent
        sent += 1
        body = await request.body()
        await publisher.publish([Record(PLAYBACK_REPORTED.name, sent % PARTITIONS, b"key", body[:60_000])])
        return {"accepted": 1}

    return app, "none"


# --- the senders


@dataclass(frozen=True, slots=True)
class Measured:
    """``per_s``: reports accepted a second; ms from request to answer; RSS of the server in MiB over the run."""

    per_s: float
    p50_ms: float
    p99_ms: float
    rss_after_warming_mib: float
    rss_end_mib: float
    refused: int


def report(number: int) -> dict[str, Any]:
    return {
        "event_id": f"b{number}",
        "user": f"person-{number % PEOPLE}",
        "media": f"film-{number % MEDIA}",
        "media_kind": "video",
        "session_id": f"s{number % (PEOPLE * MEDIA)}",
        "device_id": "tv",
        "sequence": number,
        "kind": "progress",
        "position_ms": number % 6_000_000,
        "duration_ms": 6_600_000,
        "occurred_at": 1_796_069_700_000 + number,
    }


class Load:
    def __init__(self, port: int, token: str, batch: int) -> None:
        self._port, self._token, self._batch = port, token, batch
        self._next = secrets.randbelow(10**9)
        self.took_s: list[float] = []
        self.refused = 0

    def _request(self) -> bytes:
        first = self._next
        self._next += self._batch
        reports = [report(number) for number in range(first, self._next)]
        body = json.dumps(reports[0] if self._batch == 1 else {"reports": reports}, separators=(",", ":")).encode()
        head = (
            f"POST /v1/playback HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def send_until(self, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        while time.monotonic() < until:
            request = self._request()
            started = time.monotonic()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            if head.split()[1] == b"202":
                self.took_s.append(time.monotonic() - started)
            else:
                self.refused += 1
        writer.close()
        await writer.wait_closed()


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def measure(pid: int, port: int, token: str, *, batch: int, senders: int, seconds: float) -> Measured:
    warming = Load(port, token, batch)
    until = time.monotonic() + seconds / 3
    await asyncio.gather(*(warming.send_until(until) for _ in range(senders)))
    warm_mib = rss_mib(pid)
    load = Load(port, token, batch)
    started = time.monotonic()
    await asyncio.gather(*(load.send_until(started + seconds) for _ in range(senders)))
    took = time.monotonic() - started
    ordered = sorted(load.took_s)
    assert ordered, f"none of {load.refused} requests was accepted"
    return Measured(
        per_s=round(len(ordered) * batch / took, 1),
        p50_ms=round(ordered[len(ordered) // 2] * 1000, 2),
        p99_ms=round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
        rss_after_warming_mib=round(warm_mib, 1),
        rss_end_mib=round(rss_mib(pid), 1),
        refused=load.refused,
    )


def run(kind: str, stack: Stack, folder: Path, seconds: float, senders: int) -> dict[str, Any]:
    bootstrap, address = stack.addresses.bootstrap, stack.addresses.postgres
    assert bootstrap is not None
    assert address is not None
    conninfo = {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": "postgres",
    }
    command = [sys.executable, "-m", "tests.benchmarks.door_bench", "--serve", kind]
    command += [bootstrap, json.dumps(conninfo), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port, token = server.stdout.readline().split()
            found: dict[str, Any] = {}
            for name, batch, many in (("single", 1, senders), ("quiet", 1, 1), ("batch", BATCH, BATCH_SENDERS)):
                if kind == "bare" and batch > 1:
                    continue
                measured = asyncio.run(
                    measure(server.pid, int(port), token, batch=batch, senders=many, seconds=seconds)
                )
                found[name] = asdict(measured)
                print(f"{kind:5} {name:7} {measured}", flush=True)
            return found
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--senders", type=int, default=32)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", nargs=4)
    given = parser.parse_args()
    if given.serve:
        kind, bootstrap, conninfo, folder = given.serve
        serve(kind, bootstrap, json.loads(conninfo), Path(folder))
        return
    from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
    from tests.integration.ingest.house import make_core

    folder = temporary_folder("playhead-door-bench-")
    stack = Stack(folder / "stack")
    stack.start()
    try:
        assert stack.addresses.bootstrap is not None
        assert stack.addresses.postgres is not None
        apply_topics(KafkaSettings(bootstrap=stack.addresses.bootstrap), [PLAYBACK_REPORTED, IDENTITY_USERS])
        address = stack.addresses.postgres
        make_core(
            {
                "host": address.host,
                "port": address.port,
                "user": address.user,
                "password": address.password,
                "dbname": "postgres",
            }
        )
        found = {kind: run(kind, stack, folder, given.seconds, given.senders) for kind in ("bare", "door")}
    finally:
        stack.stop()
    found["door"]["share_of_bare"] = round(found["door"]["single"]["per_s"] / found["bare"]["single"]["per_s"], 2)
    line = json.dumps({"bench": "door", "seconds": given.seconds, "senders": given.senders, **found})
    if given.out:
        given.out.write_text(line + "\n")
    print(line)


if __name__ == "__main__":
    main()
