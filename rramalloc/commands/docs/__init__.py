"""Command `docs`: where the pages of the documentation are."""
