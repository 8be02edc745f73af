"""Limits of the memory of the process: a check before large requests, and the errors of exceeded limits."""

from __future__ import annotations

import errno
import mmap
import os
import resource

_NO_MEMORY = ("failed to map segment", os.strerror(errno.ENOMEM).lower())
"""Messages of the system and of its loader when a process gets no more memory."""


def check_memory(least_bytes: int) -> None:
    """Raise MemoryError if the memory limit of this process leaves less than `least_bytes`."""
    if limit_of_memory():
        try:
            mmap.mmap(-1, least_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except OSError:
            raise MemoryError from None


def limit_of_memory() -> str:
    """Return the limit of this process in words, "" where there is none."""
    for option, limit in (("-v", resource.RLIMIT_AS), ("-d", resource.RLIMIT_DATA)):
        limit_bytes = resource.getrlimit(limit)[0]
        if limit_bytes != resource.RLIM_INFINITY:
            words = f"the limit of this process is {limit_bytes // 1024} kB (ulimit {option})"
            return f"{words}, which does not suffice: raise it, or "
    return ""


def is_short_of_memory(error: BaseException) -> bool:
    """Return True for an error, or one that it follows, of memory that was not given."""
    if isinstance(error, MemoryError) or any(text in str(error).lower() for text in _NO_MEMORY):
        return True
    if isinstance(error, SystemError):  # of compiled code that does not look at what it is given
        return limit_of_memory() != ""
    earlier = error.__cause__ or error.__context__
    return earlier is not None and is_short_of_memory(earlier)
