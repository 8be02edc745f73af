"""Crossbar allocation for memristor CNN accelerators."""
