"""`size`: the chip on which networks reach their goals."""
