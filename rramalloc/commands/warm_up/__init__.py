"""Warm up: all that commands compile, compiled ahead."""
