"""The exit codes of every command. A fault of the tool must never look like a verdict."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says to the shell; the numbers are part of the interface."""

    VERIFIED = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNDECIDED = 3
    INTERNAL = 4
    HUNG_UP = 129
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143
