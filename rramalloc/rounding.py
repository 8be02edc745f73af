"""Relative distances up to which two results in floating point count as one."""

SAME_PRODUCT = 1e-12
"""Of products and quotients of a few of the same numbers in another order: each rounds by 1e-16."""
SAME_SUM = 1e-9
"""Of sums of up to millions of the same terms in another order, and of what is computed from these."""
EXACTLY = 1 - SAME_PRODUCT
"""Factor before rounding up: a quotient that is whole but for its rounding stays that number."""
