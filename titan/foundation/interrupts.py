"""Signals that end a command end what a solver computes for it, at once.

Python hears of a signal when its own code goes on, which is after the solver's answer; and z3 and
CP-SAT take an interrupt for themselves: they answer that they do not know, and nobody else learns
of it. Here the solvers leave signals alone, a thread reads which ones came and stops the solvers at
work, and Python's handler then raises what it raises anywhere else.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol

_AGAIN, _AGAIN_SECONDS = 20, 0.05  # a solver that is about to begin may miss the first one
_raising: list[object] = [signal.default_int_handler]
_at_work: list[Callable[[], object]] = []
_watched_by = 0  # the process whose signals are read; a forked one has no threads


class _Context(Protocol):
    def interrupt(self) -> object: ...


class _OfContext(Protocol):
    @property
    def ctx(self) -> _Context: ...


def raises(handler: object) -> None:
    """Say of a handler of signals that it always raises; others leave solvers at work."""
    _raising.append(handler)


@contextlib.contextmanager
def ended_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """While the block runs, a signal that ends the command calls `stop`, from another thread."""
    _watch()
    _at_work.append(stop)
    try:
        yield
    finally:
        _at_work.remove(stop)


def z3_ended_by_signals(solver: _OfContext) -> contextlib.AbstractContextManager[None]:
    """The same for a question to z3: `solver` is anything that has its context."""
    leave_signals_alone()
    return ended_by_signals(solver.ctx.interrupt)


def pysmt_ended_by_signals(solver: object) -> contextlib.AbstractContextManager[None]:
    """The same for a solver of pysmt that is z3; cvc5 takes no signal, and has no way to stop."""
    inner = getattr(solver, "z3", None)
    return contextlib.nullcontext() if inner is None else z3_ended_by_signals(inner)


@cache
def leave_signals_alone() -> None:
    """Have z3 take no interrupt for itself, from now on."""
    import z3

    z3.set_param("ctrl_c", False)


def _watch() -> None:
    """Read the signals of this process, unless somebody does or it cannot be done here."""
    global _watched_by  # noqa: PLW0603  one process, one descriptor for its signals
    if _watched_by == os.getpid() or os.name != "posix":
        return
    if _thread.get_ident() != _main_thread():
        return  # the main thread alone may ask for them
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if before != -1:  # an event loop reads them
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
        return
    if not _watched_by:
        os.register_at_fork(after_in_child=_forget)
    _watched_by = os.getpid()
    # No thread of `threading`: nobody waits for it, and a command that has it may end at once.
    _thread.start_new_thread(_stop, (reader,))


def _main_thread() -> int | None:
    import threading

    return threading.main_thread().ident


def _forget() -> None:
    """In a forked process: the descriptor is its parent's."""
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(-1)
    _at_work.clear()


def _stop(reader: int) -> None:
    while numbers := os.read(reader, 64):
        if any(signal.getsignal(number) in _raising for number in numbers):
            for _ in range(_AGAIN):
                for stop in [*_at_work]:
                    stop()
                time.sleep(_AGAIN_SECONDS)
