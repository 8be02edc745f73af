"""Latency of single layers on a device that can only be timed from outside (SYSTEMS.md 4)."""
