"""Ctrl-C, and other signals that end a command, end what a solver computes."""

from __future__ import annotations

import subprocess
import sys

import pytest

# 400 variables and 4.26 clauses for each: decided by no solver in the time of a test. The signal
# comes while the solver is at work, or before; where it were lost, the program would not end.
HARD = """
import os, random, signal, sys, threading
from titan.scheduling.work import SearchWork
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job behind a shell ignores it
chance = random.Random(1)
variables = 400
CLAUSES = [
    tuple(chance.choice((1, -1)) * number for number in chance.sample(range(1, variables + 1), 3))
    for _ in range(1704)
]

def clauses_of(z3, add):
    for clause in CLAUSES:
        atoms = [z3.Bool(f"x{abs(number)}") for number in clause]
        pairs = zip(atoms, clause)
        add(z3.Or([atom if number > 0 else z3.Not(atom) for atom, number in pairs]))

def paper(name):
    from titan.scheduling.paper_engines import engine
    engine(name).solve(variables, CLAUSES, [], SearchWork(10**12))

def plain():
    import z3
    from titan.language.protocol.solver import satisfiable, z3_solver
    solver = z3_solver(4_000_000_000)
    clauses_of(z3, solver.add)
    satisfiable(solver)

def of_pysmt():
    import z3
    from pysmt.shortcuts import Not, Or, Solver, Symbol
    from titan.foundation.interrupts import pysmt_ended_by_signals
    with Solver(name="z3", logic="QF_LIA") as solver, pysmt_ended_by_signals(solver):
        for clause in CLAUSES:
            atoms = [(Symbol(f"x{abs(number)}"), number) for number in clause]
            solver.add_assertion(Or([a if number > 0 else Not(a) for a, number in atoms]))
        solver.solve()

def end():
    threading.Event().wait(float(sys.argv[3]))
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))

from titan.cli.main import _end_on_signals
_end_on_signals()
threading.Thread(target=end, daemon=True).start()
ways = {"plain": plain, "pysmt": of_pysmt}
try:
    ways[sys.argv[1]]() if sys.argv[1] in ways else paper(sys.argv[1])
    print("answered")
except KeyboardInterrupt:
    print("interrupted", flush=True)
except BaseException as error:
    print(type(error).__name__, flush=True)
os._exit(0)
"""


def run(way: str, name: str, after: float) -> str:
    command = [sys.executable, "-c", HARD, way, name, str(after)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert not ended.stderr, ended.stderr
    return ended.stdout.strip()


def of_program(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("way", ["plain", "pysmt", "z3", "cp-sat"])
@pytest.mark.parametrize(("name", "raised"), [("SIGINT", "interrupted"), ("SIGTERM", "Ended")])
def test_a_signal_ends_a_solver_at_work(way, name, raised):
    if way == "cp-sat":
        pytest.importorskip("ortools")
    assert run(way, name, 1.5) == raised


def test_a_handler_that_raises_nothing_leaves_solvers_at_work():
    """The answer is the one without a signal."""
    program = """
import os, signal, threading
import z3
from titan.language.protocol.solver import satisfiable, z3_solver
signal.signal(signal.SIGINT, lambda number, frame: None)
holes = 7
solver = z3_solver(4_000_000_000)
at = [[z3.Bool(f"p{p}_{h}") for h in range(holes)] for p in range(holes + 1)]
solver.add([z3.Or(row) for row in at])
for h in range(holes):
    for p in range(holes + 1):
        solver.add([z3.Or(z3.Not(at[p][h]), z3.Not(at[q][h])) for q in range(p)])
done = threading.Event()
def often():
    while not done.wait(0.01):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=often, daemon=True).start()
found = satisfiable(solver)
done.set()
print(found)
"""
    ended = of_program(program)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr


def test_forked_processes_have_signals_of_their_own():
    """A worker that is interrupted says nothing to a solver of its parent."""
    program = """
import os, signal
from titan.foundation.interrupts import ended_by_signals
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job behind a shell ignores it
stopped = []
with ended_by_signals(lambda: stopped.append(os.getpid())):
    worker = os.fork()
    if worker == 0:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os._exit(0)
    os.waitpid(worker, 0)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(stopped)
"""
    ended = of_program(program)
    assert ended.stdout == "[]\n", ended.stderr
