"""Parts that sections of a page share: facts, tables, charts of layers and of time."""
