"""Search for the best copies: one method per file, all of them `method(problem, stop, seed)`."""
