"""Search for the best replication: one method per file, all of them `method(problem, stop, seed)`."""
