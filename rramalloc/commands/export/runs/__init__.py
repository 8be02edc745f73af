"""Scripts that an export writes into its folder as run.py: standard library only, never imported here."""
