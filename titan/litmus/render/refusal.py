"""Why a litmus test has no rendering: a message, a short kind to count by, and the place."""

from __future__ import annotations

from titan.foundation.source.span import Span
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.condition import LitmusError
from titan.litmus.model.dialect import Dialect


class NotRenderable(LitmusError):
    """A construct that one launch on the target cannot do exactly as the test says."""

    def __init__(self, kind: str, message: str, span: Span | None = None) -> None:
        super().__init__(message, span)
        self.kind = kind


def check_dialect(test: LitmusTest, dialect: Dialect) -> None:
    """Raises NotRenderable for a test of another dialect than the language is written from."""
    if test.dialect is not dialect:
        raise NotRenderable("dialect", f"a test of {test.dialect}, not of {dialect}", test.span)
