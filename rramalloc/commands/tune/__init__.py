"""`tune`: the allocation that is best in the user's own simulator."""
