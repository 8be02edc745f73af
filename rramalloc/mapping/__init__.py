"""How a stage's weights lie on crossbars (docs/sources/model.md 3)."""
