"""Tables the door and the effects own: who may speak, and who and what is meant. Schema ``core``.

Names of people, their upstream ids and the like live here and nowhere else; topics know a ``user_ref`` only.
Read models live in another schema and are rebuilt from the log; these can't be, so they are what is backed up.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

CORE = "core"
metadata = MetaData(schema=CORE)

sources = Table(
    "sources",
    metadata,
    Column("source_id", Text, primary_key=True),
    Column("kind", Text, nullable=False, comment="the kind of server, or native"),
    Column("name", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of a random 256-bit token"),
    Column("token_id", Text, nullable=False, unique=True, comment="public handle, for lists and revocation"),
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id"), nullable=True, comment="null: every source"),
    Column("scopes", ARRAY(Text), nullable=False, comment="report read operate"),
    Column("user_ref", Text, nullable=True, comment="a read token may be bound to one person"),
    Column("label", Text, nullable=False, server_default=text("''")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("revoked_at", DateTime(timezone=True), nullable=True),
)

users = Table(
    "users",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id"), primary_key=True),
    Column("upstream_user", Text, primary_key=True, comment="as the source names the person"),
    Column("user_ref", Text, nullable=False, comment="random; several upstream accounts may share one"),
    Column("own_ref", Text, nullable=True, comment="before an operator linked the account: what unlinking gives back"),
    Column("display_name", Text, nullable=True),
    Column("published", Boolean, nullable=False, server_default=text("false"), comment="acknowledged by Kafka"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("users_by_ref", "user_ref"),
)

forgotten_people = Table(
    "forgotten_people",
    metadata,
    Column("user_ref", Text, primary_key=True),
    Column("forgotten_at", DateTime(timezone=True), nullable=False),
    comment="to say it again to a log that lost it",
)

forgotten_accounts = Table(
    "forgotten_accounts",
    metadata,
    Column("account_hash", Text, primary_key=True, comment="keyed hash of source and upstream user"),
    Column("forgotten_at", DateTime(timezone=True), nullable=False, comment="what it played until then is refused"),
)

backups = Table(
    "backups",
    metadata,
    Column("made_at", DateTime(timezone=True), primary_key=True),
    comment="when what is in this schema was written to a file",
)

media_aliases = Table(
    "media_aliases",
    metadata,
    Column("source_id", Text, primary_key=True),
    Column("upstream_media", Text, primary_key=True),
    Column("media_id", Text, nullable=False),
    Index("media_aliases_by_media", "media_id"),
)

alias_versions = Table(
    "alias_versions",
    metadata,
    Column("source_id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False, comment="raised whenever the library gives a name to another media"),
)

source_upstreams = Table(
    "source_upstreams",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("url", Text, nullable=False, comment="the one origin this source's server is asked at"),
    Column("interval_s", Integer, nullable=False),
    Column("verify_tls", Boolean, nullable=False, server_default=text("true")),
    Column(
        "forward_since",
        DateTime(timezone=True),
        nullable=True,
        comment="what is decided from then on is written to the server; null: nothing is",
    ),
)

source_accounts = Table(
    "source_accounts",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("account", Text, primary_key=True, comment="empty: a key that sees everybody"),
    Column("login", Text, nullable=False, comment="token, password or api_key"),
    Column("secret", Text, nullable=True, comment="in clear, for the server wants it so"),
    Column("secret_file", Text, nullable=True, comment="or the file that holds it"),
    CheckConstraint("(secret IS NULL) <> (secret_file IS NULL)", name="source_accounts_one_secret"),
)

poll_state = Table(
    "poll_state",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("upstream_user", Text, primary_key=True),
    Column("facet", Text, primary_key=True, comment="which of the server's lists it stood in"),
    Column("item", Text, primary_key=True),
    Column("seen", JSONB, nullable=False, comment="what was told last, and is in the log"),
)

poll_health = Table(
    "poll_health",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("attempted_at", DateTime(timezone=True), nullable=False),
    Column("succeeded_at", DateTime(timezone=True), nullable=True),
    Column("swept_at", DateTime(timezone=True), nullable=True, comment="when everything was read last"),
    Column("cause", Text, nullable=True, comment="class of the last error; null: none"),
    Column("failures", Integer, nullable=False, comment="in a row"),
    Column("next_at", DateTime(timezone=True), nullable=True),
    Column("channel", Text, nullable=True, comment="push channel at the last poll: open or away; null: none"),
)

forward_sent = Table(
    "forward_sent",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), nullable=False),
    Column("user_ref", Text, nullable=False),
    Column("media_id", Text, nullable=False),
    Column("value_hash", BigInteger, nullable=False, comment="of what was written to the server"),
    Column(
        "returned", ARRAY(Text), nullable=False, server_default=text("'{}'"), comment="ways it came back: hook, poll"
    ),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("forward_sent_by_value", "source_id", "user_ref", "media_id", "value_hash"),
    Index("forward_sent_by_expiry", "expires_at"),
)

forward_wanted = Table(
    "forward_wanted",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("user_ref", Text, primary_key=True),
    Column("media_id", Text, primary_key=True, comment="of the server it is written to"),
    Column("from_source", Text, nullable=False),
    Column("from_media", Text, nullable=False, comment="what was decided about"),
    Column("partition", Integer, nullable=False),
    Column("log_epoch", Integer, nullable=False),
    Column(
        "version", BigInteger, nullable=False, comment="offset of the decision in playback.decided, within log_epoch"
    ),
    Column("done_version", BigInteger, nullable=False, server_default=text("-1")),
    Column("place", Text, nullable=False, comment="at finished unplayed; none: nothing is wanted, it came from there"),
    Column("position_ms", BigInteger, nullable=False),
    Column("duration_ms", BigInteger, nullable=True),
    Column("event_time", BigInteger, nullable=False, comment="when it was so, epoch ms"),
    Column(
        "logged_at",
        BigInteger,
        nullable=False,
        comment="log-append time of the report, epoch ms: an older log changes nothing",
    ),
    Column(
        "sent",
        ARRAY(BigInteger),
        nullable=False,
        server_default=text("'{}'"),
        comment="what was written last, newest first: positions in ms, -1 played, -2 unplayed",
    ),
    Column("refusals", Integer, nullable=False, server_default=text("0"), comment="of this value in a row"),
    Column("outcome", Text, nullable=True, comment="written same kept nothing"),
    Column("done_at", DateTime(timezone=True), nullable=True),
    Index("forward_wanted_by_person", "user_ref"),
    comment="how a person's playback of a media should stand on a server",
)

forward_plays = Table(
    "forward_plays",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("user_ref", Text, primary_key=True),
    Column("media_id", Text, primary_key=True),
    Column("log_epoch", Integer, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("played_at", BigInteger, nullable=False),
    Column(
        "tried",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="it may be counted there already: ask first",
    ),
    Index("forward_plays_by_person", "user_ref"),
    comment="plays a server has yet to be told of; deleted when it has been",
)

tasks = Table(
    "tasks",
    metadata,
    Column("kind", Text, primary_key=True, comment="scan metadata reconcile forward cache"),
    Column("key", Text, primary_key=True, comment="what it is of: a source, or one item of it"),
    Column("source_id", Text, nullable=False),
    Column("log_epoch", Integer, nullable=False, comment="of the versions below"),
    Column("wanted_version", BigInteger, nullable=False, comment="offset of the newest request"),
    Column("done_version", BigInteger, nullable=False, server_default=text("-1")),
    Column("cancelled_version", BigInteger, nullable=False, server_default=text("-1"), comment="and all before it"),
    Column("running_version", BigInteger, nullable=True, comment="begun last, for a scan its generation"),
    Column("payload", JSONB, nullable=False, server_default=text("'{}'")),
    Column("correlation_id", Text, nullable=False, comment="of the newest request"),
    Column("requested_at", DateTime(timezone=True), nullable=False, comment="since when something is wanted"),
    Column("attempts", Integer, nullable=False, server_default=text("0"), comment="since it was done last"),
    Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("lease_token", Text, nullable=True, comment="a number that only grows, and a random part"),
    Column("lease_until", DateTime(timezone=True), nullable=True, comment="by this server's clock"),
    Column("progress", JSONB, nullable=True, comment="how far the running attempt is; for people"),
    Column("last_error", Text, nullable=True),
    Column("last_error_class", Text, nullable=True),
    Column("finished_at", DateTime(timezone=True), nullable=True),
    Column("dead_at", DateTime(timezone=True), nullable=True, comment="given up, until it is requested again"),
    Index("tasks_waiting", "kind", "next_attempt_at", postgresql_where=text("wanted_version > done_version")),
)

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), nullable=False),
    Column("requested_by", Text, nullable=False, comment="schedule, follow_up or reconcile"),
    Column("cron", Text, nullable=True, comment="in UTC; null: once"),
    Column("jitter_s", Integer, nullable=False, server_default=text("0"), comment="up to so much later"),
    Column("delay_s", Integer, nullable=True, comment="of a follow-up: how long after the scan before it"),
    Column("next_at", DateTime(timezone=True), nullable=True, comment="null: not due"),
    Column("lease_token", Text, nullable=True),
    Column("lease_until", DateTime(timezone=True), nullable=True),
    Column("last_at", DateTime(timezone=True), nullable=True),
    Index("schedules_by_source", "source_id"),
)

source_trees = Table(
    "source_trees",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("path", LargeBinary, nullable=False, comment="of the root, absolute, as the file system has it"),
    Column("watch", Boolean, nullable=False, server_default=text("true")),
)

dead_letter_marks = Table(
    "dead_letter_marks",
    metadata,
    Column("letter_id", Text, primary_key=True),
    Column("status", Text, nullable=False, comment="open parked redriving redriven discarded; no row: open"),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("marked_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("sent_topic", Text, nullable=True),
    Column("sent_partition", Integer, nullable=True),
    Column(
        "sent_from",
        BigInteger,
        nullable=True,
        comment="end of that partition before it was sent: what was sent lies behind it",
    ),
    Column("sent_offset", BigInteger, nullable=True),
    Column(
        "failures",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="redrives after which it could not be processed either",
    ),
    Column("last_error", Text, nullable=True),
    Column("failed_at", BigInteger, nullable=True, comment="when the letter had failed last, then, epoch ms"),
)

dlq_audit = Table(
    "dlq_audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("chosen", JSONB, nullable=False, comment="the filters the letters were chosen by"),
    Column("letters", ARRAY(Text), nullable=False),
)

reconcile_runs = Table(
    "reconcile_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("source_id", Text, nullable=True, comment="null: every source"),
    Column("begun_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("repaired", Boolean, nullable=False, comment="what mends it was put into the log"),
    Column("drift", JSONB, nullable=False, comment="cause → how many"),
    Index("reconcile_runs_by_end", "ended_at"),
)
