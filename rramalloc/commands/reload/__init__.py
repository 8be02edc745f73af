"""Networks that are larger than the chip: written into the arrays and run in segments, one after another."""
