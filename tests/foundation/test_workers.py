"""Worker processes and signals that come while they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from titan.foundation.workers import worker_pool

# A worker sends itself a signal as soon as it is forked, before code of its own runs.
EARLY = """
import os, signal, sys
from titan.foundation.workers import worker_pool
here = os.getpid()
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
signal.signal(signal.SIGTERM, signal.default_int_handler)
if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(sum(pool.map(abs, range(-4, 0))))
"""


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="processes are not forked here")
def test_an_interrupt_of_a_worker_that_starts_shows_nothing():
    command = [sys.executable, "-c", EARLY]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr, done.returncode) == ("10\n", "", 0)


def test_signals_reach_the_parent_and_its_workers_again():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with worker_pool(1) as pool:
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
        assert pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result() == before


def test_a_fault_ends_the_workers():
    with pytest.raises(ZeroDivisionError), worker_pool(2) as pool:
        pool.submit(divmod, 1, 0).result()
    assert not pool._processes or not any(one.is_alive() for one in pool._processes.values())
