"""The text of a PTX module without comments, and the faults found in it, with their places."""

from __future__ import annotations

import re

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.errors import TitanError
from titan.foundation.source.span import Source

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|/\*', re.S)
_SPACE = re.compile(r"\s*")
FINDINGS_MAX = 100

INVALID, UNKNOWN, UNDECLARED, TWICE, RANGE = "TTN001", "TTN010", "TTN011", "TTN013", "TTN009"


class Stop(TitanError):
    """The rest of the text cannot be read; the reason is among the findings."""


class Scanner:
    """Walks over the text; offsets stay those of the original, since comments become blanks."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings: list[Diagnostic] = []
        self.position = 0
        self.text = _COMMENT.sub(self._blank, source.text)

    def _blank(self, found: re.Match[str]) -> str:
        text = found.group()
        if text.startswith('"'):
            return text
        if text == "/*":
            self.fault(INVALID, "a comment does not end", found.start(), found.end())
            return "  "
        return re.sub(r"[^\n]", " ", text) if "\n" in text else " " * len(text)

    def fault(self, code: str, headline: str, start: int, end: int, help_: str = "") -> None:
        """Note a finding at the half-open range of offsets. Raises Stop after FINDINGS_MAX."""
        helps = (help_,) if help_ else ()
        self.findings.append(diagnostic(code, headline, self.source.span(start, end), helps=helps))
        if len(self.findings) >= FINDINGS_MAX:
            raise Stop

    def skip_space(self) -> bool:
        """Go to the next character that is not blank; False at the end of the text."""
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        return self.position < len(self.text)

    def find(self, character: str, what: str) -> int:
        """The offset of `character` from here on. Raises Stop, with a finding, if it is missing."""
        place = self.text.find(character, self.position)
        if place < 0:
            end = min(self.position + 20, len(self.text))
            line = self.text.find("\n", self.position, end)
            self.fault(INVALID, f"{what} does not end", self.position, line if line > 0 else end)
            raise Stop
        return place

    def line_end(self) -> int:
        """The offset of the next newline, or of the end of the text where none follows."""
        place = self.text.find("\n", self.position)
        return len(self.text) if place < 0 else place

    def closing(self, opening: int, what: str) -> int:
        """The offset of the bracket that closes the one at `opening`. Raises Stop if missing."""
        depth = 0
        for found in re.compile(r'"[^"\n]*"|[{}()\[\]]').finditer(self.text, opening):
            mark = found.group()
            if mark in "{([":
                depth += 1
            elif mark in "})]":
                depth -= 1
                if depth == 0:
                    return found.start()
        self.fault(INVALID, f"{what} does not end", opening, opening + 1)
        raise Stop


def split_at_commas(text: str) -> list[tuple[int, str]]:
    """The parts between commas outside of brackets, each with its offset; blanks are stripped."""
    pieces: list[tuple[int, str]] = []
    if "{" not in text and "[" not in text and "(" not in text:
        at = 0
        for piece in text.split(","):
            pieces.append((at + len(piece) - len(piece.lstrip()), piece.strip()))
            at += len(piece) + 1
    else:
        depth = start = 0
        for place, mark in enumerate(text):
            if mark in "{[(":
                depth += 1
            elif mark in "}])":
                depth -= 1
            elif mark == "," and depth == 0:
                pieces.append(_piece(text, start, place))
                start = place + 1
        pieces.append(_piece(text, start, len(text)))
    return [] if len(pieces) == 1 and not pieces[0][1] else pieces


def _piece(text: str, start: int, end: int) -> tuple[int, str]:
    raw = text[start:end]
    return start + len(raw) - len(raw.lstrip()), raw.strip()
