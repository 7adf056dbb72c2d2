"""Standard streams: `-` as the name of an input file, and streams that are closed.

`-` is read once, when the arguments are, and is called `<stdin>` from then on.

For streams that are closed from the start (`>&-`), which Python sets to None, there are stand-ins.

What is written to such a stdout ends the command as a closed pipe does; what is written to such a
stderr is lost. The descriptors are taken, so that no file that is opened later becomes the output
of a library.
"""

from __future__ import annotations

import errno
import io
import os
import sys

import click

from titan.cli.paths import GivenPath

STDIN_BYTES_MAX = 16 << 20


class InputPath(GivenPath):
    """The path of an input file; `-` is standard input."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The path, or the name of what standard input held. Raises click.BadParameter."""
        if value != "-":
            return super().convert(value, param, ctx)
        from titan.foundation.source.loading import take_stdin

        if sys.stdin is not None and sys.stdin.isatty():
            click.echo("note: reading standard input, a terminal; end with Ctrl-D", err=True)
        try:
            return take_stdin(STDIN_BYTES_MAX)
        except OSError as error:
            reason = (error.strerror or "it cannot be read").lower()
            self.fail(f"standard input: {reason}", param, ctx)


INPUT = InputPath()


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
