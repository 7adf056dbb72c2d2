"""Ctrl-C while a SAT solver searches ends the command as an interrupt, not as an internal error."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pysat", reason="python-sat is not installed")

PIGEONS = """
from itertools import combinations
from titan.scheduling.cnf import Cnf, SatSolver
from titan.scheduling.work import SearchWork

holes = 12
cnf = Cnf()
at = [[cnf.variable() for _ in range(holes)] for _ in range(holes + 1)]
for pigeon in at:
    cnf.add(*pigeon)
for one, other in combinations(at, 2):
    for hole in range(holes):
        cnf.add(-one[hole], -other[hole])
solver = SatSolver()
solver.load(cnf, SearchWork(1e9))
print("loaded", flush=True)
solver.solve((), SearchWork(SECONDS))
"""


@pytest.mark.parametrize("seconds", ["300.0", "float('inf')"], ids=["limited", "unlimited"])
def test_an_interrupt_is_none_of_the_solver(seconds: str) -> None:
    program = PIGEONS.replace("SECONDS", seconds)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "loaded\n"
        time.sleep(0.3)  # most likely it searches by now; before that it is an interrupt, too
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=120)
    assert errors.strip().endswith("KeyboardInterrupt"), errors
