"""What was made last, for what is asked for again and again before anything else is."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Generic, TypeVar

Made = TypeVar("Made")


class LastMade(Generic[Made]):
    """Keeps one thing, and alive what it was made of."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], object, Made] | None = None

    def of(
        self, objects: tuple[object, ...], make: Callable[[], Made], value: object = None
    ) -> Made:
        """What is made of these very objects, and of a value equal to this one."""
        if self._kept is not None:
            known, last, made = self._kept
            if len(known) == len(objects) and all(map(is_, known, objects)) and last == value:
                return made
        found = make()
        self._kept = objects, value, found
        return found
