"""Command `networks`: the networks that ship with the package."""
