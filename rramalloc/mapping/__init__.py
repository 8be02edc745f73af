"""How a stage's weights lie on crossbars (MODEL.md 3)."""
