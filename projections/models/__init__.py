"""One read model a module: what its rows are, and the SQL that folds a batch into them."""
