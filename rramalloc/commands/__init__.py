"""Commands: a folder for each, with its computation, record, command line and view."""
