"""Verify: the placed accelerator computed with integers, value by value, and compared with a reference."""
