"""Every metric there is, with one sentence each; the documentation shows this file.

Labels are from closed sets (kinds, verdicts, topics, partitions): never a person, a media or a token.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

REGISTRY = CollectorRegistry()

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SLOW = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600)


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
    return Counter(f"playhead_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(f"playhead_{name}", text, labels, registry=REGISTRY)


def _histogram(name: str, text: str, labels: tuple[str, ...] = (), *, buckets: tuple[float, ...] = _FAST) -> Histogram:
    return Histogram(f"playhead_{name}", text, labels, registry=REGISTRY, buckets=buckets)


REPORTS_ACCEPTED = _counter(
    "reports_accepted", "Reports accepted at the door: acknowledged by Kafka, or in the spool.", ("format",)
)
REPORTS_REJECTED = _counter("reports_rejected", "Reports refused at the door.", ("format", "reason"))
OBSERVATIONS_ACCEPTED = _counter("observations_accepted", "News of the library in webhooks, accepted.", ("format",))
HOOKS_IGNORED = _counter("hooks_ignored", "Webhook calls without playback or library news.", ("format", "reason"))
UNKNOWN_FIELDS = _counter("unknown_fields", "Fields in payloads that no parser knows; they are tolerated.", ("format",))
REQUEST_SECONDS = _histogram("request_seconds", "Time to answer an HTTP request.", ("route", "status"))
PUBLISH_SECONDS = _histogram("publish_seconds", "Time from hand-over to acknowledgement of a produced record.")
LIMITED = _counter("limited", "Requests answered 429, by what sent too many.", ("of",))
SPOOLED = _counter("spooled", "Reports accepted into the local spool: Kafka or PostgreSQL was away.")
SPOOL_DRAINED = _counter("spool_drained", "Reports that went from the spool to Kafka.")
SPOOL_RECORDS = _gauge("spool_records", "Reports in the spool of this process.")
SPOOL_BYTES = _gauge("spool_bytes", "Bytes they count for.")
SPOOL_FULL = _gauge("spool_full_ratio", "How full the spool is, 0 to 1: alarm at 0.8, from 1 on reports get 503.")
SPOOL_HELD = _counter("spool_held", "Spooled reports set aside for a while: their source is unknown, say.", ("reason",))
UNAVAILABLE = _counter("unavailable", "Requests answered 503 because a dependency was away.", ("dependency",))
FAILURES = _counter(
    "dependency_failures",
    "Calls that a dependency did not answer well (postgres, kafka, valkey, upstream), and how: timeout, away, or what "
    "a media server said.",
    ("dependency", "how"),
)

DECISIONS = _counter("decisions", "Decisions by verdict and reason.", ("verdict", "reason"))
FORGOTTEN_REFUSED = _counter(
    "forgotten_refused", "Reports of people who were forgotten, made of nothing: at the door, by the agent.", ("by",)
)
DUPLICATES_SUPPRESSED = _counter("duplicates_suppressed", "Reports recognised as already seen.")
LIBRARY_CHANGES = _counter(
    "library_changes", "What the library's rules told: events, and the changes or status in them.", ("event", "change")
)
BATCHES = _counter("batches", "Transactions committed by an agent.", ("agent",))
BATCH_RECORDS = _counter("batch_records", "Records processed by an agent.", ("agent",))
ABORTS = _counter("aborts", "Transactions aborted by an agent and tried again.", ("agent",))
COMMIT_SECONDS = _histogram("commit_seconds", "Time of an agent's transaction, begin to stored.", ("agent",))
RESTORED_RECORDS = _counter("restored_records", "Changelog records replayed into local tables.", ("agent",))
RESTORE_PROGRESS = _gauge("restore_progress", "Share of the newest restore that is done, 0 to 1.", ("agent",))
RESTORE_LEFT_RECORDS = _gauge("restore_left_records", "Changelog records still to replay into tables.", ("agent",))
ASSIGNED_UNITS = _gauge("assigned_units", "Partitions an agent process owns now.", ("agent",))
BUFFERED_RECORDS = _gauge("buffered_records", "Records fetched by an agent and not yet processed.", ("agent",))
AGENT_LAG_RECORDS = _gauge(
    "agent_lag_records", "Records of an owned partition an agent has not committed yet.", ("agent", "partition")
)
DEAD_LETTERS = _counter("dead_letters", "Records given up, by who and why.", ("consumer", "cause"))
DEAD_LETTERS_OPEN = _gauge("dead_letters_open", "Listed letters nobody has dealt with, by cause.", ("cause",))
BREAKERS_OPEN = _gauge("breakers_open", "1 for a projection a flood has stopped until it is resumed.", ("consumer",))
BACKUP_AGE_SECONDS = _gauge("backup_age_seconds", "How long ago the newest backup was made; +Inf: there is none.")

PROJECTED_RECORDS = _counter("projected_records", "Records read by a projection.", ("projection",))
PROJECTION_SECONDS = _histogram("projection_seconds", "Time of a projection's transaction.", ("projection",))
PROJECTION_LAG_SECONDS = _gauge(
    "projection_lag_seconds", "Age of the newest record a projection applied, when it applied it.", ("projection",)
)
PROJECTION_RETRIES = _counter("projection_retries", "Batches tried again after a database error.", ("projection",))
PROJECTION_BEHIND_RECORDS = _gauge(
    "projection_behind_records",
    "Offsets of owned partitions a projection has not applied, markers of transactions counted too: seldom quite 0.",
    ("projection",),
)
PROJECTION_FENCED = _counter(
    "projection_fenced", "Batches dropped: another owner had moved their offsets.", ("projection",)
)
STALE_PREVENTED = _counter("stale_overwrites_prevented", "Records older than their row.", ("projection",))
REPEATS_DROPPED = _counter("repeats_dropped", "Records dropped: their cause was applied before.", ("projection",))
OUTBOX_ROWS = _gauge("outbox_rows", "Invalidations waiting to be published.")
OUTBOX_OLDEST_SECONDS = _gauge("outbox_oldest_seconds", "How long ago the oldest of them was committed.")
INVALIDATIONS = _counter("invalidations", "Invalidations published.")
INVALIDATIONS_COALESCED = _counter("invalidations_coalesced", "Outbox rows covered by a newer one of the same key.")
INVALIDATION_LAG_SECONDS = _histogram("invalidation_lag_seconds", "Row committed to invalidation acknowledged.")
POLLS = _counter("polls", "Polls of media servers by kind, and what went wrong (or none).", ("kind", "cause"))
POLL_UNUSABLE = _counter("poll_unusable", "Entries of polled lists that could not be reports.", ("kind",))
POLL_SECONDS = _histogram("poll_seconds", "Time of one poll of one source.", ("kind",))
POLL_SOCKETS = _gauge("poll_sockets", "Push channels of media servers that are open.", ("kind",))
POLL_SOCKETS_ENDED = _counter("poll_sockets_ended", "Push channels that ended or were refused.", ("kind", "cause"))
POLL_MESSAGES = _counter(
    "poll_messages", "What push channels said: news, nothing of playing, unknown or unusable.", ("kind", "what")
)
TASKS_WAITING = _gauge("tasks_waiting", "Tasks that wait for a worker, those put off included.", ("kind",))
TASKS_RUNNING = _gauge("tasks_running", "Tasks that are under a lease now, of whatever worker.", ("kind",))
TASKS_DEAD = _gauge("tasks_dead", "Tasks that were given up and not requested again since.", ("kind",))
TASKS_OLDEST_SECONDS = _gauge(
    "tasks_oldest_seconds", "How long ago the oldest unfinished task was requested.", ("kind",)
)
TASK_ATTEMPTS = _counter("task_attempts", "Attempts at tasks, by how they ended.", ("kind", "outcome"))
TASK_SECONDS = _histogram("task_seconds", "Time of one attempt at a task.", ("kind",), buckets=_SLOW)
TASK_LATENCY_SECONDS = _histogram("task_latency_seconds", "Task requested to task done.", ("kind",), buckets=_SLOW)
TASKS_DONE = _counter("tasks_done", "Tasks done, by whether that was within the target time.", ("kind", "in_time"))
FORWARDED = _counter(
    "forwarded",
    "Items whose playback a server was to be told: written, same already, kept (newer there), nothing to tell.",
    ("kind", "outcome"),
)
LEASES_EXPIRED = _counter(
    "leases_expired", "Leases of other workers that had ended when a task was claimed.", ("kind",)
)
LEASES_LOST = _counter("leases_lost", "Writes about a task refused: its lease was over.", ("kind",))
SCANS_REQUESTED = _counter(
    "scans_requested", "Scans that workers asked for: schedule, watch, follow_up, retry, operator.", ("by",)
)
SCAN_SECONDS = _histogram(
    "scan_seconds", "Scan begun to its last word: listed, sent, decided and finalized.", ("status",), buckets=_SLOW
)
SCAN_LISTED = _counter("scan_listed", "Items and skips of listings that came to their end, all in the log.")
SCAN_RECEIVED = _counter("scan_received", "Those that had arrived when their scan was finalized.")
SCAN_ITEMS = _counter(
    "scan_items", "What finalized scans found: items seen, added, changed, moved, missing.", ("what",)
)
CACHE_READS = _counter(
    "cache_reads", "Reads through the cache, by kind of key and how they were answered.", ("kind", "outcome")
)
CACHE_FILLS = _counter(
    "cache_fills", "Answers of PostgreSQL offered to the cache, by what it did with them.", ("outcome",)
)
CACHE_SECONDS = _histogram("cache_seconds", "Time of one call to the cache that was answered.")
CACHE_INVALIDATIONS = _counter("cache_invalidations", "Invalidations the cache was told of.")
CACHE_LAG_SECONDS = _histogram("cache_lag_seconds", "Row committed to cache told, as the cache worker sees it.")
CACHE_BEHIND_SECONDS = _gauge("cache_behind_seconds", "How old what the cache worker knows of the log's end is.")
CACHE_OPEN = _gauge("cache_open", "1 while the cache may answer, 0 while every read asks PostgreSQL.")
CACHE_GENERATIONS = _counter("cache_generations", "Times the cache was begun anew, empty, by why.", ("reason",))
CHANGE_LISTENERS = _gauge("change_listeners", "Clients that listen to changes at this process.")
CHANGES_SENT = _counter("changes_sent", "Events of changes sent to clients: change, reset.", ("event",))
RECONCILE_DRIFT = _gauge(
    "reconcile_drift", "What the newest reconcile found, by cause; of one source, or of all.", ("cause", "source")
)
RECONCILE_LOOKED_AT = _gauge("reconcile_looked_at", "Things the newest reconcile compared.", ("scope",))
RECONCILE_REPAIRS = _counter("reconcile_repairs", "What reconcile put into the log to mend drift.", ("repair",))
RECONCILE_RUNS = _counter(
    "reconcile_runs", "Runs of reconcile, by what they found: drift, in_order, not_compared.", ("found",)
)
CRASHES = _counter("crashes", "Roles that ended unexpectedly and were started again.", ("role",))
STARTED_SECONDS = _gauge("role_started_seconds", "When this process began, epoch seconds.", ("role",))


@contextmanager
def served(host: str, port: int) -> Iterator[int]:
    """As ``serve``, until it is left."""
    server, thread = start_http_server(port, addr=host, registry=REGISTRY)
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve(host: str, port: int) -> int:
    """Answer GET /metrics on ``host:port`` from a daemon thread; returns the port (0 picks a free one)."""
    server, _ = start_http_server(port, addr=host, registry=REGISTRY)
    return int(server.server_port)
