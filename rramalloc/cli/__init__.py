"""The command line: one command per file, no arithmetic."""

EXIT_CANNOT_SERVE = 1  # 2 is Typer's, for a wrong command line
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report Ctrl-C
