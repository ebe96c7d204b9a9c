"""A schema registry on loopback whose every answer a test chooses: honest, hostile, broken or slow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Stub:
    """An honest little registry; ``override`` maps a path prefix to (status, body bytes) answered instead.

    ``overtaken``: another client sets every level in the moment before ours does.
    """

    url: str = ""
    schemas: dict[int, str] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    override: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    overtaken: bool = False
    silent: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.requests.append(f"{method} {path}")
        if self.silent.is_set():
            self.released.wait(30)
        for prefix, answer in self.override.items():
            if path.startswith(prefix):
                return answer
        status, document = self._honest(method, path, body)
        return status, json.dumps(document).encode()

    def _honest(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        parts = path.partition("?")[0].strip("/").split("/")
        match method, parts:
            case "GET", ["schemas", "ids", number]:
                if int(number) not in self.schemas:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, {"schema": self.schemas[int(number)]}
            case "PUT", ["config", subject]:
                self.levels[subject] = json.loads(body)["compatibility"]
                if self.overtaken:
                    return 409, {"error_code": 409, "message": "A rule named 'COMPATIBILITY' already exists."}
                return 200, {"compatibility": self.levels[subject]}
            case "GET", ["config", subject]:
                if subject not in self.levels:
                    return 404, {"error_code": 40408, "message": "no level"}
                return 200, {"compatibilityLevel": self.levels[subject]}
            case "POST", ["subjects", subject, "versions"]:
                text = json.loads(body)["schema"]
                schema_id = self._version(subject, text)
                if schema_id is None:
                    schema_id = len(self.schemas) + 1
                    self.schemas[schema_id] = text
                    self.subjects.setdefault(subject, []).append(schema_id)
                return 200, {"id": schema_id}
            case "POST", ["subjects", subject]:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                text = json.loads(body)["schema"]
                schema_id = self._version(subject, text)
                if schema_id is None:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                version = self.subjects[subject].index(schema_id) + 1
                return 200, {"id": schema_id, "version": version, "subject": subject, "schema": text}
            case _:
                return 404, {"error_code": 404, "message": "HTTP 404"}

    def _version(self, subject: str, text: str) -> int | None:
        return next((one for one in self.subjects.get(subject, []) if self.schemas[one] == text), None)


@contextmanager
def serving() -> Iterator[Stub]:
    """A stub answering at ``stub.url`` until the block ends."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two packets; the second must not wait for the client to have acknowledged the first.
        disable_nagle_algorithm = True

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, out = stub.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        do_GET = do_POST = do_PUT = _any

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                # The client gave up, as the slow tests want it to.
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
