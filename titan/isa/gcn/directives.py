"""Directives that decide which instructions a kernel has: what may stand inside of one, and where.

The reader takes every statement as the instruction that it names. A macro, a condition or a
repetition makes others of them, wherever it stands; data between instructions are executed, and a
part that goes to another section is not where it is written. Such text is refused. Of all other
directives those are known here which leave the code of a kernel as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAKES_CODE = re.compile(
    r"\.(if\w*|else\w*|endif|macro|endm|endmacro|exitm|purgem|altmacro|noaltmacro|rept?|endr|irpc?"
    r"|include|incbin|end)$"
)
_HARMLESS = re.compile(
    r"\.(loc|file|cfi_\w+|set|equ|globl|global|weak|hidden|protected|internal|local|type|size|ident"
    r"|addrsig\w*|amdgcn_target|amdhsa_\w+|end_amdhsa_kernel|amdgpu_\w+|end_amdgpu_\w+"
    r"|text|data|section|pushsection|popsection|previous)$"
)
_ALIGNED = re.compile(r"\.(p2align|balign|align)[wl]?$")
_NOTHING = frozenset(("0xbf800000", "3212836864"))  # s_nop 0, of which padding consists
_NAME = re.compile(r'\s*("[^"]*"|[^,\s]+)')


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A directive of which an instruction, or none, is made; `at`: instructions before it."""

    at: int
    word: str
    line: int
    column: int


class Directives:
    """Follows the sections of a file, and notes what must not stand inside of a kernel."""

    def __init__(self) -> None:
        self.section = ".text"
        self._before = ".text"
        self._kept: list[tuple[str, str]] = []
        self._misplaced: list[tuple[str, Misplaced]] = []
        self._sections: list[str] = []  # of each instruction

    def read(self, word: str, rest: str, at: int, place: tuple[int, int]) -> bool:
        """One directive behind `at` instructions; False if no file with it is read."""
        if _MAKES_CODE.match(word):
            return False
        if word in (".text", ".data"):
            self._go(f"{word} {rest.strip()}".strip())
        elif word in (".section", ".pushsection"):
            if word == ".pushsection":
                self._kept.append((self.section, self._before))
            found = _NAME.match(rest)
            self._go(found.group(1).strip('"') if found is not None else "")
        elif word == ".popsection" and self._kept:
            self.section, self._before = self._kept.pop()
        elif word == ".previous":
            self._go(self._before)
        elif not _HARMLESS.match(word) and not _padding(word, rest):
            self._misplaced.append((self.section, Misplaced(at, word, *place)))
        return True

    def instruction(self, count: int) -> None:
        """There are `count` instructions now."""
        self._sections += [self.section] * (count - len(self._sections))

    def elsewhere(self, start: int, end: int) -> int | None:
        """The first instruction of a kernel that is in another section than its first one."""
        home = self._sections[start] if start < end else ""
        return next((at for at in range(start, end) if self._sections[at] != home), None)

    def misplaced(self, start: int, end: int) -> list[Misplaced]:
        """What stands between the instructions of a kernel."""
        home = self._sections[start] if start < end else ""
        return [
            one for section, one in self._misplaced if section == home and start <= one.at < end
        ]

    def _go(self, section: str) -> None:
        self.section, self._before = section, self.section


def _padding(word: str, rest: str) -> bool:
    """Whether it aligns what follows, with instructions that do nothing."""
    parts = [part.strip() for part in rest.split(",")]
    return bool(_ALIGNED.match(word)) and (len(parts) < 2 or parts[1] in ("", *_NOTHING))
