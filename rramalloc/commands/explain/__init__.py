"""Explain: what holds an allocation back, the points of the front beside it, and what faster would take."""
