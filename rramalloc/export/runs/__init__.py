"""Scripts that an export puts beside its files as run.py: standard library only, never imported here."""
