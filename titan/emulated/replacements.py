"""Attributes of the modules of others, replaced while a program runs."""

from __future__ import annotations

from titan.emulated.foreign import Foreign


class Replacements:
    """What was there before, to be put back in reverse order."""

    def __init__(self) -> None:
        self._before: list[tuple[Foreign, str, Foreign]] = []

    def put(self, owner: Foreign, name: str, value: Foreign) -> None:
        """Replace one attribute; one that was not there is taken away again later."""
        self._before.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """All as it was."""
        for owner, name, value in reversed(self._before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._before.clear()


_ABSENT = object()
