"""Tables the door and the effects own: who may speak, and who and what is meant. Schema ``core``.

Names of people, their upstream ids and the like live here and nowhere else; topics know a ``user_ref`` only.
Read models live in another schema and are rebuilt from the log; these can't be, so they are what is backed up.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

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
