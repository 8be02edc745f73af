"""The command line: one command per file, no arithmetic."""

EXIT_CANNOT_SERVE = 1
EXIT_INTERRUPTED = 130
