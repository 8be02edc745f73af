"""Commands: a folder for each, with what it computes, its record, its command line and its section."""
