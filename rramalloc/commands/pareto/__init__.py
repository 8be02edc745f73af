"""Fronts: an objective against arrays, or against another quantity."""
