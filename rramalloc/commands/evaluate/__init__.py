"""Allocation strategies side by side, layer after layer: load matrix and performance matrix."""
