"""The package's version, as installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("rramalloc")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
