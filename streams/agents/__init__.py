"""Faust agents: decode, ask the domain, write the table, emit. Thin on purpose; the rules are elsewhere."""
