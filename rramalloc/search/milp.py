"""MILP over the separable recurrence, built with PuLP and solved by CBC or HiGHS (MODEL.md 6)."""

from __future__ import annotations
