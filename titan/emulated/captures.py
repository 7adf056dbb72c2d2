"""What a program captures into a graph (`torch.cuda.graph`) instead of having it done.

There is one stream, so one capture at a time, of all back ends of the process.
"""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[], object]


class Captures:
    """`steps` are those of the graph that is being captured; None: nothing is."""

    steps: list[Step] | None = None

    def do(self, step: Step) -> None:
        """Do it now, or each time that the graph is replayed."""
        if self.steps is None:
            step()
        else:
            self.steps.append(step)


CAPTURES = Captures()
