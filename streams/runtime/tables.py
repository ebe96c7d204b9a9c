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

media_aliases = Table(
    "media_aliases",
    metadata,
    Column("source_id", Text, primary_key=True),
    Column("upstream_media", Text, primary_key=True),
    Column("media_id", Text, nullable=False),
    Index("media_aliases_by_media", "media_id"),
)

source_upstreams = Table(
    "source_upstreams",
    metadata,
    Column("source_id", Text, ForeignKey(f"{CORE}.sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("url", Text, nullable=False, comment="the one origin this source's server is asked at"),
    Column("interval_s", Integer, nullable=False),
    Column("verify_tls", Boolean, nullable=False, server_default=text("true")),
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
