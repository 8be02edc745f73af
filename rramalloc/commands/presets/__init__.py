"""Command `presets`: the hardware that ships with the package."""
