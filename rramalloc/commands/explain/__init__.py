"""Explain: the bottlenecks of an allocation, its neighbours on the front, and gains from other hardware."""
