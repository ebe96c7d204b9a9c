"""Progress to media servers: what each is told, and how."""
