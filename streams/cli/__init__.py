"""The command line: one file a command; each wires what it needs."""
