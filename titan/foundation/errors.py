"""The tree of exceptions: what went wrong, sorted by who has to do something about it.

Every exception class of the package derives from one of these. The three children are what may
leave a room; a signal that is raised and caught within one room derives from `TitanError` itself.
`Interruption` stands apart: who handles errors must not handle it.
"""

from __future__ import annotations

from titan.foundation.verdict import Reason


class TitanError(Exception):
    """Any exception that the package raises on purpose."""


class UserError(TitanError):
    """The input is bad: the message says what is wrong with it, and its author mends it.

    Exit code 2.
    """


class Refusal(TitanError):
    """The input may be good, but it is not decided or not done: beyond a limit, or not supported.

    `reason` classifies the refusal for the caller, the message words it for a person. Exit code 3
    where a verdict was asked for.
    """

    reason: Reason = Reason.UNSUPPORTED

    def __init__(self, *message: object, reason: Reason | None = None) -> None:
        super().__init__(*message)
        if reason is not None:
            self.reason = reason


class InternalError(TitanError):
    """The package contradicts itself: a bug, or two engines that disagree. Exit code 4."""


class Interruption(BaseException):
    """The command has to end now, and nothing went wrong: like KeyboardInterrupt, no error."""
