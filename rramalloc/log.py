"""The logger of the package, silent unless it is configured."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("rramalloc")
"""INFO: every improvement of a search; WARNING: what results warn of."""
LOGGER.addHandler(logging.NullHandler())
