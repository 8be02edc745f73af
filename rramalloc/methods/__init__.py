"""Published or obvious heuristics, one per file: what the search is measured against."""
