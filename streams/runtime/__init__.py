"""Shared plumbing at the edges: settings, Kafka, tables, logs, metrics, errors, clock, failpoints."""
