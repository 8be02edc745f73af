"""Filters folded, of one convolution or of a whole network (docs/sources/companions.md 3)."""
