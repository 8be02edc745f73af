"""Layout of a stage's weights on crossbars (docs/sources/model.md 3)."""
