"""How many processes may work at the same time; costs nothing to import."""

from __future__ import annotations

import os

from titan.foundation.errors import UserError


def cores() -> int:
    """The processors that this process may use, or as many as TITAN_JOBS says. Raises UserError."""
    wanted = os.environ.get("TITAN_JOBS", "").strip()
    if wanted:
        if not (wanted.isascii() and wanted.isdecimal() and int(wanted[:9]) > 0):
            raise UserError(f"TITAN_JOBS is a number of processes, 1 or more, not {wanted[:40]!r}")
        return min(int(wanted[:9]), 256)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
