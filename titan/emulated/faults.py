"""Errors for programs whose launch is wrong or cannot be run."""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.render import render
from titan.isa.numbers.device import LaunchError


class LaunchFault(LaunchError):
    """A launch that is wrong, in the run that was made or in another interleaving of it.

    Its text is the diagnostics, as `titan verify` prints them. `hung`: the run did not end.
    """

    def __init__(
        self, headline: str, findings: Sequence[Diagnostic], *, hung: bool = False
    ) -> None:
        text = render("text", findings).rstrip()
        super().__init__(f"{headline}\n\n{text}" if text else headline, findings)
        self.headline = headline
        self.hung = hung


class NotComputed(LaunchError):
    """A launch that ended well and leaves bytes in memory that are not computed here."""


def refused(text: str, findings: Sequence[Diagnostic]) -> LaunchError:
    """The error of a launch that cannot be run, with the reason."""
    shown = render("text", findings).rstrip()
    return LaunchError(f"{text}\n\n{shown}" if shown else text, findings)
