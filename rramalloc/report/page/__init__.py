"""One self-contained HTML page from result files."""
