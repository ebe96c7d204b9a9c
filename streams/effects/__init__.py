"""From the log to the outside world: tasks under leases, at least once and harmless to repeat."""
