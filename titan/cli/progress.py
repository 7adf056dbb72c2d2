"""The current step, its progress and its duration, on the last line of a terminal.

Where standard error is not a terminal the line is not shown; a command that may take minutes before
its first result writes a line for each part that is done (`milestone`). The line is wiped before
anything else is written (`titan.cli.output.write`) and when the work ends, however it ends. The
clock is for the eye alone: nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

EVERY_SECONDS = 0.25
QUIET_SECONDS = 0.5  # what is done sooner is not shown
PARTS_LEAST = 100  # fewer parts are soon done
_WIPE = "\r\x1b[K"


class ProgressLine:
    """The line. `show` sets the step; a thread writes it, with the seconds so far."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._text = ""
        self._since = time.monotonic()
        self._shown = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, text: str, done: int = 0, of: int = 0) -> None:
        """The step from now on, and how many of how many are done."""
        if self._descriptor is None:
            return
        from titan.foundation.diagnostics.wording import printable

        counted = f"{done} of {of}: " if of > 1 else ""
        text = printable(counted + text, 200)
        with self._lock:
            if text != self._text:
                self._text, self._since = text, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def wipe(self) -> None:
        """Remove the line, so that something else can be written."""
        with self._lock:
            self._wipe()

    def end(self) -> None:
        """Remove the line for good."""
        self._ended.set()
        self.wipe()

    def _wipe(self) -> None:
        if self._shown:
            self._put(_WIPE)
            self._shown = False

    def _tick(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            with self._lock:
                seconds = time.monotonic() - self._since
                if self._text and seconds >= QUIET_SECONDS and not self._ended.is_set():
                    room = max(20, self._columns() - 12)
                    self._put(f"{_WIPE}{self._text[:room]} ({seconds:.0f} s)")
                    self._shown = True

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor or 2).columns
        except OSError:
            return 80

    def _put(self, text: str) -> None:
        # Past Python's buffer: a process that is forked meanwhile inherits no lock of it.
        with contextlib.suppress(OSError):
            os.write(self._descriptor or 2, text.encode("utf-8", "replace"))

    def forget(self) -> None:
        """In a forked process: the line is its parent's."""
        self._descriptor, self._lock, self._shown = None, threading.Lock(), False


_current = ProgressLine()


def current() -> ProgressLine:
    """The line of the running command; one that is never shown where none is wanted."""
    return _current


def milestone(text: str) -> None:
    """A line of its own about what is done, where standard error is not a terminal."""
    if not sys.stderr.isatty():
        import click

        from titan.foundation.diagnostics.wording import printable

        click.echo(printable(text, 200), err=True)


def show_part(text: str, done: int, of: int) -> None:
    """One more of many is done: on the line, or where there is none a line for each tenth."""
    current().show(text, done, of)
    if of >= PARTS_LEAST and done * 10 // of != (done - 1) * 10 // of:
        milestone(f"{text}: {done} of {of}")


@contextlib.contextmanager
def progress(wanted: bool = True) -> Iterator[ProgressLine]:
    """The line for the time of a command; one inside another is the same one."""
    global _current  # noqa: PLW0603  one terminal, one line
    if _current._descriptor is not None or not wanted or not sys.stderr.isatty():
        yield _current
        return
    line, before = ProgressLine(_descriptor()), _current
    os.register_at_fork(after_in_child=line.forget)
    _current = line
    try:
        yield line
    finally:
        _current = before
        line.end()


def _descriptor() -> int | None:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return None
