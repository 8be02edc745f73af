"""Sweeps: the product of lists of networks, budgets, hardware and methods, computed durably on many cores."""
