"""Worker processes that end with the command that started them, however it ends.

Assumes a start method that runs `initializer` in each worker. On Linux a worker also ends when its
parent is killed; elsewhere it ends when it next reads from the pool's closed queue.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ENDING = {
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
}


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` processes; any exception ends them at once, not when they are done."""
    pool = ProcessPoolExecutor(jobs, initializer=follow_parent, initargs=(os.getpid(),))
    with _signals_wait():
        pool.submit(os.getpid)  # where processes are forked, all of them are now
    try:
        yield pool
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        raise
    pool.shutdown()


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Signals wait, also in workers that are forked here, until `follow_parent` handles them.

    One that came before would be an exception in code of the pool, and shown as a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent(parent: int) -> None:
    """In a worker: signals mean the end, and an interrupt is the parent's to handle."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before this was asked for
            os._exit(1)
