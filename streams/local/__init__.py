"""The embedded stack: real services for development, tests and small installations, without containers."""

from __future__ import annotations

from streams.local.addresses import Addresses
from streams.local.cache import Cache, cache_directory
from streams.local.errors import LocalStackError
from streams.local.kafka import KafkaBroker
from streams.local.kafka_cluster import KafkaCluster
from streams.local.postgres import PostgresAddress, PostgresServer
from streams.local.progress import BarProgress, Progress, SilentProgress
from streams.local.registry import SchemaRegistry
from streams.local.stack import Stack
from streams.local.valkey import ValkeyServer

__all__ = [
    "Addresses",
    "BarProgress",
    "Cache",
    "KafkaBroker",
    "KafkaCluster",
    "LocalStackError",
    "PostgresAddress",
    "PostgresServer",
    "Progress",
    "SchemaRegistry",
    "SilentProgress",
    "Stack",
    "ValkeyServer",
    "cache_directory",
]
