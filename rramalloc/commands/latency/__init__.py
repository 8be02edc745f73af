"""Latency of single layers on a device that can only be timed from outside (docs/sources/companions.md 4)."""
