"""The command line: one command per file, no arithmetic."""
