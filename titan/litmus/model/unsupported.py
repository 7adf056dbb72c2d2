"""What the format can express and no engine decides."""

from __future__ import annotations

from titan.foundation.errors import Refusal


class UnsupportedTest(Refusal):
    """A construct that the format can express but no engine decides; never rounded to a verdict."""
