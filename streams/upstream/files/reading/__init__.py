"""What is in one file: read by a process of its own, which may crash or hang without harm."""
