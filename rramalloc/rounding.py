"""Relative distances up to which two results in floating point count as one."""

SAME_PRODUCT = 1e-12
"""Relative rounding of products of a few equal numbers in another order: each rounds by 1e-16."""
SAME_SUM = 1e-9
"""Relative rounding of sums of millions of equal terms in another order, and of what follows from them."""
EXACTLY = 1 - SAME_PRODUCT
"""Factor before rounding up: a quotient that is whole but for its rounding stays that number."""
