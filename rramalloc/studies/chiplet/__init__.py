"""Inference cost on a topology of chiplets, from a description or from a placement (SYSTEMS.md 2)."""
