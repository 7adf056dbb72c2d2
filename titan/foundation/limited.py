"""A call, or a program, that may use so much processor time, whatever it is doing when that ends.

The call runs in a process of its own, so that solvers and other native code are ended as well, and
what it used before does not count. Processor time, not the clock: a busy machine changes nothing.
Assumes that the arguments are there already (fork) and that the result can be pickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from titan.foundation.errors import InternalError
from titan.foundation.workers import follow_parent

Result = TypeVar("Result")


def within(seconds: int, call: Callable[[], Result]) -> Result | None:
    """The result of the call, or None if it needs more than `seconds` of processor time.

    Raises what the call raises; InternalError where its process ends in another way.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    worker = os.fork()  # no process of multiprocessing: the daemons of a cluster may have none
    if worker == 0:
        os.close(reader)
        _run(seconds, call, writer, parent)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as stream:
            answer = stream.read()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        os.waitpid(worker, 0)
        raise
    ended = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if ended == -signal.SIGXCPU:
        return None
    if ended != 0:
        raise InternalError(f"a worker ended with {ended}")
    succeeded, value = pickle.loads(answer)
    if not succeeded:
        raise value
    result: Result = value
    return result


def limited(seconds: int) -> Callable[[], None]:
    """What a child calls before it becomes another program, to get so much processor time.

    It is ended by SIGXCPU then, and a second later in any case.
    """

    def limit() -> None:
        _limit(seconds)

    return limit


def run_limited(
    command: Sequence[str], seconds: int, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a program writes, and how it ends: by SIGXCPU where it uses more processor time.

    Linux sets the limit of the new program from outside, ten times as fast as a copy of this
    process that limits itself. Raises OSError where it cannot be started.
    """
    from_outside = getattr(resource, "prlimit", None)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        preexec_fn=None if from_outside else limited(seconds),  # noqa: PLW1509 - no thread forks
    ) as started:
        try:
            if from_outside:
                with contextlib.suppress(ProcessLookupError):  # it is over
                    from_outside(started.pid, resource.RLIMIT_CPU, _limits(seconds))
            written, complaints = started.communicate()
        except BaseException:
            started.kill()
            raise
    return subprocess.CompletedProcess(command, started.returncode, written, complaints)


def _limits(seconds: int) -> tuple[int, int]:
    """The limits of a process for so much time; where the user has set lower ones, those stay."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if most == resource.RLIM_INFINITY or most > seconds:
        return seconds, seconds + 1
    return max(1, most - 1), most


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, _limits(seconds))


def _run(seconds: int, call: Callable[[], object], writer: int, parent: int) -> None:
    """The life of the worker; it never returns, and flushes nothing of its parent's."""
    ended = 1
    try:
        follow_parent(parent)
        _limit(seconds)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer = (True, call())
        except Exception as error:  # it is the caller's
            answer = (False, error)
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(answer, stream)
        ended = 0
    finally:
        os._exit(ended)
