"""Warm up: compile all functions of all commands ahead."""
