"""What can't be made again from the log, in one file: schema core, and where projections stand.

one snapshot (REPEATABLE READ) ─COPY─► archive.py: a zip of tables and a manifest with their SHA-256
archive, verified ─► restoring.py ─COPY─► empty tables, positions.py places projections in the log there is
"""
