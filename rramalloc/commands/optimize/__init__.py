"""Optimize: the best number of copies of every layer for a number of arrays."""
