"""One file a revision, with its SQL beside it. A released revision never changes."""
