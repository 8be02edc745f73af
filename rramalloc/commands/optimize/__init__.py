"""Optimize: the best replication of every layer for a number of arrays."""
