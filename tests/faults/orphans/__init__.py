"""The hunt for orphaned transactions: kill brokers twice under transactional producers, then look what is left open."""
