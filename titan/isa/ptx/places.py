"""Source locations: `.file`, `.loc`, and the chains of inlined calls."""

from __future__ import annotations

import re

from titan.foundation.source.location import SourceLocation
from titan.isa.ptx.scanner import INVALID, Scanner

_FILE = re.compile(r'\s*\.file\s+(\d{1,9})\s+"([^"\n]*)"')
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([\w$]+)(?:\s*\+\s*(\d+))?"
    r"\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)


class PtxPlaces:
    """`.file` directives may follow their uses; `finish` puts the names in.

    The call that an `inlined_at` names is itself found by its place: the last `.loc` of that place
    that was inlined gives the rest of the chain.
    """

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.files: dict[int, str] = {}
        self.current: SourceLocation | None = None
        self._made: dict[tuple[int, int, int, SourceLocation | None], SourceLocation] = {}
        self._last: dict[tuple[int, int, int], SourceLocation] = {}
        self.read_files()

    def read_files(self) -> None:
        """All `.file` directives of the text."""
        text = self.scanner.text
        at = text.find(".file")
        while at >= 0:
            match = _FILE.match(text, at)
            if match is not None and not text[text.rfind("\n", 0, at) + 1 : at].strip():
                self.files[int(match.group(1))] = match.group(2).rpartition("/")[2]
            at = text.find(".file", at + 1)

    def directive(self, text: str, start: int) -> None:
        """A line that begins with `.loc` or `.file`."""
        if text.startswith(".file"):
            if _FILE.match(text) is None:
                self.scanner.fault(INVALID, "a file is not understood", start, start + 5)
            return
        found = _LOC.match(text)
        if found is None:
            self.scanner.fault(INVALID, "a location is not understood", start, start + 4)
            return
        file, line, column = (int(text[:9]) for text in found.group(1, 2, 3))
        outer: SourceLocation | None = None
        if found.group(6) is not None:
            place = (int(found[6][:9]), int(found[7][:9]), int(found[8][:9]))
            outer = self._last.get(place) or self._location(*place, None)
        self.current = self._location(file, line, column, outer)
        self._last[(file, line, column)] = self.current
        if line == 0:
            self.current = outer

    def _location(
        self, file: int, line: int, column: int, outer: SourceLocation | None
    ) -> SourceLocation:
        key = (file, line, column, outer)
        known = self._made.get(key)
        if known is None:
            name = self.files.get(file, f"file {file}")
            depth = 0 if outer is None else len(outer.chain())
            known = SourceLocation(name, line, column, "", outer if depth < 64 else None)
            self._made[key] = known
        return known
