"""How many processes may work at the same time; costs nothing to import."""

from __future__ import annotations

import os


def cores() -> int:
    """The processors that this process may use, or fewer where TITAN_JOBS says so."""
    wanted = os.environ.get("TITAN_JOBS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return min(int(wanted), 256)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
