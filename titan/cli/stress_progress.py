"""How far a stress run has come: on the line of a terminal, or a line for each variant."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from titan.cli.progress import current, milestone

if TYPE_CHECKING:
    from titan.device.stress import StressPlan, StressRun


class StressProgress:
    """Counts runs. `lines`: also write a line when all of a variant are done."""

    def __init__(self, plan: StressPlan, *, lines: bool) -> None:
        self._left = dict(plan.runs)
        self._variants, self._lines = len(self._left), lines
        self._states: dict[tuple[str, int, str], Counter[str]] = {}
        self._all: Counter[str] = Counter()
        self._done = 0
        self._runs = runs = sum(self._left.values())
        of = f" of {runs + plan.left_out:,} (--runs)" if plan.left_out else ""
        click.echo(f"variants: {self._variants}, runs: {runs:,}{of}", err=True)

    def text(self) -> str:
        """How much is done, of how much."""
        done = f"{sum(self._all.values()):,} of {self._runs:,} runs are done"
        return f"{done}, {self._done} of {self._variants} variants whole"

    def add(self, run: StressRun) -> None:
        """One more run."""
        key = (run.package, run.depth, run.variant)
        states = self._states.setdefault(key, Counter())
        states[run.state] += 1
        self._all[run.state] += 1
        current().show(f"{run.package}, {run.variant}: {_text(self._all)}")
        self._left[key] -= 1
        if self._left[key] == 0:
            self._done += 1
            if self._lines:
                name = f"{run.package} depth {run.depth}, {run.variant}"
                milestone(f"{self._done} of {self._variants}: {name}: {_text(states)}")


def _text(states: Counter[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
