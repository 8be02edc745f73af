"""Allocations: the verb `optimize`, the checks of its result, and the file it is kept in."""
