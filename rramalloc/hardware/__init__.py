"""Hardware descriptions: records of a TOML file, and the presets that ship with the package."""
