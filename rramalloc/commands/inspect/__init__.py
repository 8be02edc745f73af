"""Inspect: stages, windows, demand and the smallest budget of a network."""
