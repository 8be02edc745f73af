"""Command `examples`: files to start from."""
