"""`.file` and `.loc` of assembly; the calls inlined are in LLVM's comment behind the directive."""

from __future__ import annotations

import re

from titan.foundation.source.location import SourceLocation

_FILE = re.compile(r'\s*(\d{1,9})\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})(?:\s+(\d{1,9}))?")
_CHAIN = re.compile(r"@\[\s*([^\s:\]\[]+):(\d{1,9}):(\d{1,9})")


class Locations:
    """The location that holds where the reader stands; None in front of the first."""

    def __init__(self) -> None:
        self.current: SourceLocation | None = None
        self._files: dict[int, str] = {}
        self._made: dict[tuple[str, str], SourceLocation | None] = {}

    def declare(self, text: str) -> None:
        """The operands of a `.file`; one without a number names the unit and says nothing here."""
        found = _FILE.match(text)
        if found is not None:
            self._files[int(found.group(1))] = found.group(3).rpartition("/")[2]

    def set(self, text: str, line: str) -> bool:
        """The operands of a `.loc` and its line with comments; False if it is not understood."""
        comment = line.partition(";")[2]
        key = (text, comment)
        if key in self._made:
            self.current = self._made[key]
            return True
        found = _LOC.match(text)
        if found is None:
            return False
        outer: SourceLocation | None = None
        for file, number, column in reversed(_CHAIN.findall(comment)):
            outer = SourceLocation(file.rpartition("/")[2], int(number), int(column), "", outer)
        file_name = self._files.get(int(found.group(1)), f"file {found.group(1)}")
        number, column = int(found.group(2)), int(found.group(3) or 0)
        self.current = SourceLocation(file_name, number, column, "", outer) if number else outer
        self._made[key] = self.current
        return True
