"""Inspect: stages, windows, arrays per copy and the smallest budget of a network."""
