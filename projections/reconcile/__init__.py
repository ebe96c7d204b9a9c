"""What the log says, the database shows, the caches serve and the servers know, held against each other."""
