"""From the log to PostgreSQL read models, from there to cache invalidations, and the API that reads them."""
