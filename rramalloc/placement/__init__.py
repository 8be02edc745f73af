"""Placement: every array of every chip gets the block of weights it holds, so that little is moved."""
