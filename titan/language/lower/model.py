"""The result of lowering: a sync program with notes, or a refusal with its reasons."""

from __future__ import annotations

from dataclasses import field

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class Note:
    """A choice that lowering made and that the user did not write down.

    `adds` names the operation that it put into the program, where it did.
    """

    text: str
    span: Span | None = field(default=None, compare=False)
    adds: str = ""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The sync program of a protocol, with notes on what lowering decided or could not decide."""

    program: SyncProgram
    notes: tuple[Note, ...] = ()


class LoweringRefused(Refusal):
    """The protocol has no faithful form on the target; `diagnostics` give the reasons."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics


def refusal(code: str, message: str, span: Span | None = None, *reasons: str) -> LoweringRefused:
    """A refusal with one diagnostic; `reasons` become its notes."""
    return LoweringRefused(diagnostic(code, message, span, notes=reasons))
