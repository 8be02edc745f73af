"""Simulate: the exact timing of an allocation."""
