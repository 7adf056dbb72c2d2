"""Where compiled code comes from: a `.loc` of the code, with the calls that were inlined."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A `.loc`: a line of a source file, and the call through which it was inlined, if it was."""

    file: str
    line: int
    column: int
    function: str = ""
    inlined_at: SourceLocation | None = None

    def chain(self) -> tuple[SourceLocation, ...]:
        """From the innermost place outwards."""
        places: list[SourceLocation] = []
        place: SourceLocation | None = self
        while place is not None:
            places.append(place)
            place = place.inlined_at
        return tuple(places)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
