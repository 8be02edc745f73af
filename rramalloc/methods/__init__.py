"""Published or obvious heuristics, one per file: baselines of the search."""
