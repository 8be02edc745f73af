"""Inference cost on a topology of chiplets (docs/sources/companions.md 2)."""
