"""The one type of finding that every part of TITAN emits and every renderer shows.

A diagnostic is data: a code of the table in `codes.py`, a headline that can be read alone,
annotated spans, notes, helps and perhaps a trace. It does not know how it is shown.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from titan.foundation.diagnostics.codes import CODES
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span


class Severity(StrEnum):
    """How much a finding matters: an error refutes or refuses, a warning does not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span and its message; the label is shorter than the headline."""

    span: Span
    label: str = ""
    primary: bool = False


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of an interleaving, in the words of the kernel.

    `follows` says what it leads to; `number` counts the steps of the whole interleaving from 1, and
    is 0 for what is about to be done.
    """

    agent: str
    text: str
    span: Span | None = None
    follows: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class TraceReference:
    """An interleaving that shows the fault; `path` is the saved file for `titan replay`, if any.

    `count` is the number of all its steps; `steps` may be those that matter only.
    """

    steps: tuple[TraceStep, ...]
    path: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Build it with `diagnostic()`, which fills the severity from the code table."""

    code: str
    severity: Severity
    headline: str
    annotations: tuple[Annotation, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    trace: TraceReference | None = None
    fingerprint: str = ""

    @property
    def name(self) -> str:
        """The name of the rule in the code table; KeyError for a code that is not in it."""
        return CODES[self.code].name

    @property
    def primary(self) -> Annotation | None:
        """The annotation that the arrow points at: the one marked primary, else the first."""
        for annotation in self.annotations:
            if annotation.primary:
                return annotation
        return self.annotations[0] if self.annotations else None

    @property
    def span(self) -> Span | None:
        """Where the primary label points; None for a finding without one."""
        primary = self.primary
        return primary.span if primary is not None else None

    def with_trace(self, trace: TraceReference) -> Diagnostic:
        """A copy that refers to `trace`; a finding is never changed in place."""
        return replace(self, trace=trace)


def diagnostic(
    code: str,
    headline: str,
    span: Span | None = None,
    label: str = "",
    *,
    others: tuple[Annotation, ...] = (),
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
) -> Diagnostic:
    """A diagnostic with the severity of its code, a primary annotation and a fingerprint.

    `with_trace` adds the interleaving of a counterexample.

    Raises KeyError for a code that is not in the table.
    """
    severity = Severity(CODES[code].severity)
    primary = (Annotation(span, label, primary=True),) if span is not None else ()
    mark = fingerprint(code, headline, span)
    annotations = primary + others
    return Diagnostic(code, severity, headline, annotations, notes, helps, None, mark)


def fingerprint(code: str, headline: str, span: Span | None) -> str:
    """A hash that survives edits elsewhere in the file:

    Code, headline, path and the text of the line, not its number.
    """
    path, text = (span.path, span.excerpt().strip()) if span is not None else ("", "")
    content = "\0".join((code, headline, path.replace("\\", "/"), text))
    import hashlib

    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def sort_key(item: Diagnostic) -> tuple[str, int, int, str, str]:
    """Orders findings by path, line, column, code and headline, not by when they were found."""
    span = item.span
    if span is None:
        return ("", 0, 0, item.code, item.headline)
    return (span.path, span.start_line, span.start_column, item.code, item.headline)
