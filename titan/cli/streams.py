"""Stand-ins for standard streams that are closed from the start (`>&-`): Python sets them to None.

What is written to such a stdout ends the command as a closed pipe does; what is written to such a
stderr is lost. The descriptors are taken, so that no file that is opened later becomes the output
of a library.
"""

from __future__ import annotations

import errno
import io
import os
import sys


class ClosedOutput(io.TextIOBase):
    """A stream that accepts no output."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        """Raises BrokenPipeError."""
        raise BrokenPipeError(errno.EPIPE, "standard output is closed")


def take_closed_streams() -> None:
    """Open those of the three standard streams that are closed."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  for the whole run
