"""Work that makes many objects which all stay: no look for cyclic garbage meanwhile.

Looking through objects that live until the end takes a quarter to a half of the time of a run that
is recorded and ordered. Where the collector was off, it stays off.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """The function, executed without the collector of cyclic garbage."""

    @wraps(function)
    def executed(*args: P.args, **kwargs: P.kwargs) -> R:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if collecting:
                gc.enable()

    return executed
