"""Methods side by side, at one budget or several."""
