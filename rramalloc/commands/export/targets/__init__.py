"""One module per tool: its name is the target's, its function `export` makes the files (see `discovery`)."""
