"""Compact definitions of the shipped networks, one family per file."""
