"""Certificates of programs in which a name is that of two things, or writes lines of a report.

Whatever the rest of such a certificate says, it is refused: a reader that looks a name up in a
dictionary takes the last of two declarations, and one that goes through a list the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.proof.kernels import programs
from titan.cli.main import run
from titan.proof.check import RefusedError, check, sealed
from titan.proof.fence_write import write_fences
from titan.proof.run_check import RunRefusedError, check_run
from titan.proof.run_write import write_run
from titan.proof.write import write
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.text import program_of, text_of

Change = Callable[[ir.SyncProgram], ir.SyncProgram]
FAKE = "hopper_gemm for sm_90a\n  program   sha256 0\nproved: other.cert: gemm"


def with_role(program: ir.SyncProgram, **changes: object) -> ir.SyncProgram:
    first, *rest = program.roles
    return replace(program, roles=(replace(first, **changes), *rest))  # type: ignore[arg-type]


TWICE: dict[str, Change] = {
    "a buffer": lambda p: replace(p, buffers=(replace(p.buffers[0], stages=50), *p.buffers)),
    "a barrier": lambda p: replace(p, barriers=(replace(p.barriers[0], count=7), *p.barriers)),
    "a size": lambda p: replace(p, parameters=(ir.Parameter("tiles", 0), *p.parameters)),
    "a queue": lambda p: replace(p, queues=(ir.Queue("q"), ir.Queue("q", pipelined=True))),
    "a pool": lambda p: replace(p, pools=(ir.Pool("p", 1), ir.Pool("p", 100))),
    "a role": lambda p: replace(p, roles=(replace(p.roles[0], body=()), *p.roles)),
    "a mbarrier and a named one": lambda p: replace(
        p, named_barriers=(ir.NamedBarrier(p.barriers[0].name),)
    ),
    "a counter": lambda p: with_role(p, variables=(("n", 0), ("n", 5))),
    "a counter and the agent": lambda p: with_role(p, variables=(("self", 0),)),
    "a loop and the agent": lambda p: with_role(p, agent_constant="t"),
    "a size and the agent": lambda p: with_role(p, agent_constant="tiles"),
    "a size and a counter": lambda p: with_role(p, variables=(("tiles", 3),)),
}
SHOWN: dict[str, Change] = {
    f"{what} {name!r}": change
    for name in (FAKE, "x\x1b[2J", "x\u202eevil", "x\r", "x\u2028y", "\ud800")
    for what, change in {
        "program": lambda p, name=name: replace(p, name=name),
        "target": lambda p, name=name: replace(p, target=name),
        "size": lambda p, name=name: replace(p, parameters=(ir.Parameter(name), *p.parameters)),
        "role": lambda p, name=name: with_role(p, name=name),
        "buffer": lambda p, name=name: replace(p, buffers=(ir.Buffer(name), *p.buffers)),
        "storage": lambda p, name=name: replace(
            p, buffers=(ir.Buffer("more", storage=name), *p.buffers)
        ),
        "counter": lambda p, name=name: with_role(p, variables=((name, 0),)),
    }.items()
}
BELOW: dict[str, Change] = {
    "a size": lambda p: replace(p, parameters=(ir.Parameter("less", -3), *p.parameters)),
    "a size and its least": lambda p: replace(p, parameters=(ir.Parameter("less", 2, 3),)),
    "a pool": lambda p: replace(p, pools=(ir.Pool("p", -1),)),
}


@pytest.mark.parametrize("change", TWICE.values(), ids=list(TWICE))
def test_a_name_of_two_things_is_refused(change: Change) -> None:
    with pytest.raises(ValueError, match=r"stands twice|a number that stays"):
        program_of(text_of(change(programs("hopper_gemm")[0])))


@pytest.mark.parametrize("change", SHOWN.values(), ids=[str(n) for n in range(len(SHOWN))])
def test_a_name_that_would_be_shown_as_something_else_is_refused(change: Change) -> None:
    with pytest.raises(ValueError, match="holds a"):
        program_of(text_of(change(programs("hopper_gemm")[0])))


@pytest.mark.parametrize("change", BELOW.values(), ids=list(BELOW))
def test_numbers_below_their_least_are_refused(change: Change) -> None:
    with pytest.raises(ValueError, match="is less than"):
        program_of(text_of(change(programs("hopper_gemm")[0])))


@pytest.mark.parametrize("name", ["hopper_gemm", "hopper_gemm_multicast", "fa4_forward"])
def test_programs_of_the_library_have_such_names(name: str) -> None:
    program = programs(name)[0]
    assert program_of(text_of(program)) == program


def test_a_whole_certificate_with_a_name_of_several_lines_is_refused(tmp_path, capsys):
    place = tmp_path / "x.cert"
    place.write_text(write(replace(programs("mi300_gemm")[0], name=FAKE)), encoding="utf-8")
    assert run(["check", str(place)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and re.match(r"refused: .*x\.cert: line 2: ", shown.err)
    with pytest.raises(RefusedError, match="space"):
        check(place.read_text(encoding="utf-8"))


@pytest.mark.parametrize("word", ["a0\x07\x1b[2J", "a0\u202e", "a0\r"])
@pytest.mark.parametrize("kind", ["fences", "run", "verdict"])
def test_what_a_refusal_quotes_stays_text(kind, word, tmp_path, capsys):
    program = programs("grouped_gemm")[0]
    text = {
        "fences": lambda: write_fences(program),
        "run": lambda: write_run(shared_name("other", waits=True)),
        "verdict": lambda: write(programs("mi300_gemm")[0]),
    }[kind]()
    lines = text.split("\n")
    place = next(n for n, line in enumerate(lines) if n >= 2 and " a0" in f" {line}")
    lines[place] = lines[place].replace("a0", word, 1)
    path = tmp_path / "x.cert"
    path.write_text(sealed("\n".join([*lines[:-2], ""])), encoding="utf-8", newline="")
    assert run(["check", str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("refused: ") and shown.endswith("\n")
    assert all(char.isprintable() for char in shown[:-1])


def shared_name(named: str, waits: bool = False) -> ir.SyncProgram:
    """The reader meets the writer before the copy, and waits for its mbarrier or does not."""
    barrier, meeting = ir.Reference("full"), ir.Reference(named)
    copied = ir.Completion(barrier, Constant(16))
    writer = (
        ir.BarrierSync(barrier=meeting, threads=Constant(64)),
        ir.Arrive(barrier=barrier, transaction=Constant(16)),
        ir.Asynchronous(effects=(ir.Effect("x", write=True),), completes=(copied,)),
        ir.Wait(barrier=barrier, parity=Constant(0), phase=Constant(0)),
    )
    late = ir.Access(effects=(ir.Effect("own"),))  # so that the run has the copy first
    reader = (
        ir.BarrierSync(barrier=meeting, threads=Constant(64)),
        *(late,) * 5,
        *((ir.Wait(barrier=barrier, parity=Constant(0), phase=Constant(0)),) if waits else ()),
        ir.Access(effects=(ir.Effect("x"),)),
    )
    return ir.SyncProgram(
        "shared_name",
        "sm_90a",
        (ir.Role("writer", writer), ir.Role("reader", reader)),
        barriers=(ir.Barrier("full", 1),),
        named_barriers=(ir.NamedBarrier(named), ir.NamedBarrier("more")),
        buffers=(ir.Buffer("x"), ir.Buffer("own")),
    )


def test_a_race_is_not_hidden_by_a_named_barrier_of_the_same_name() -> None:
    """The clock of a run has one entry a name: the meeting would count as the copy's end."""
    with pytest.raises(Exception, match="not ordered"):
        write_run(shared_name("other"))
    with pytest.raises(RunRefusedError, match="stands twice"):
        check_run(write_run(shared_name("full")))
