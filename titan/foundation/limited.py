"""A call that may use so much processor time and no more, whatever it is doing when that ends.

The call runs in a process of its own, so that solvers and other native code are ended as well, and
what it used before does not count. Processor time, not the clock: a busy machine changes nothing.
Assumes that the arguments are there already (fork) and that the result can be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from titan.foundation.errors import InternalError
from titan.foundation.workers import follow_parent

Result = TypeVar("Result")
_SPENT = -24  # SIGXCPU, on Linux and macOS


def within(seconds: int, call: Callable[[], Result]) -> Result | None:
    """What the call returns, or None where it needs more than so many seconds of processor time.

    Raises what the call raises; InternalError where its process ends in another way.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_run, args=(seconds, call, sender, os.getpid()))
    worker.start()
    sender.close()
    try:
        succeeded, value = receiver.recv()
    except EOFError:
        worker.join()
        if worker.exitcode == _SPENT:
            return None
        raise InternalError(f"a worker ended with {worker.exitcode}") from None
    except BaseException:
        worker.terminate()
        raise
    finally:
        worker.join()
    if not succeeded:
        raise value
    result: Result = value
    return result


def _run(seconds: int, call: Callable[[], Any], sender: Connection, parent: int) -> None:
    follow_parent(parent)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = (True, call())
    except Exception as error:  # it is the caller's
        answer = (False, error)
    sender.send(answer)
