"""Command `schema`: the JSON Schemas of file formats."""
