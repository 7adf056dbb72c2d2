"""Scheduled loops as text: the skeleton is compiled, run, and its events are played."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from titan.cli.main import run as titan
from titan.foundation.resources import root
from titan.report.schedule_program import cuda_skeleton, group_programs, pseudocode
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.run import Request, run

LOOPS = root("protocols") / "loops"
NAMES = ["toy_fa_hopper", "fa3_forward", "gemm_hopper", "fa4_forward"]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")

HARNESS = """
#include <cstdio>
#include <cstdlib>
struct {{ int x; }} threadIdx;
#define __global__
{skeleton}
struct Operations {{
{members}
}};
int main(int count, char** given) {{
  threadIdx.x = std::atoi(given[1]);
  {name}_pipeline(Operations(), std::atoi(given[2]));
}}
"""
MEMBER = '  void {m}(int i) {{ std::printf("{m} %d\\n", i); }}'


def scheduled(loop):
    result = run(loop, Request(solver="rau", budget_seconds=20))
    assert result.schedule is not None
    return result.schedule


def events(folder, loop, schedule):
    """What the warps of every group do, from the compiled skeleton, by number of iterations."""
    names = [op.name for op in loop.operations]
    members = [m for name in names for m in (name, f"wait_{name}", f"arrive_{name}")]
    text = HARNESS.format(
        skeleton=cuda_skeleton(loop, schedule), name=loop.name,
        members="\n".join(MEMBER.format(m=m) for m in members),
    )  # fmt: skip
    source, program = folder / "p.cpp", folder / "p"
    source.write_text(text)
    command = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused", str(source), "-o", program]
    subprocess.run(command, check=True)

    def of(n):
        found = []
        for group in group_programs(loop, schedule):
            thread = str(32 * group.first_warp)
            ran = subprocess.run(
                [program, thread, str(n)], capture_output=True, text=True, check=True
            )
            lines = [line.split() for line in ran.stdout.splitlines()]
            found.append([(name, int(i)) for name, i in lines])
        return found

    return of


def play(programs):
    """The operations in an order that the waits permit; fails where nobody can go on."""
    arrived, done = set(), []
    places = [0] * len(programs)
    moved = True
    while moved:
        moved = False
        for number, program in enumerate(programs):
            while places[number] < len(program):
                name, i = program[places[number]]
                if name.startswith("wait_") and (name[5:], i) not in arrived:
                    break
                if name.startswith("arrive_"):
                    arrived.add((name[7:], i))
                elif not name.startswith("wait_"):
                    done.append((name, i))
                places[number] += 1
                moved = True
    assert all(places[k] == len(p) for k, p in enumerate(programs)), "nobody can go on"
    return done


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_once_and_after_what_it_waits_for(name, tmp_path):
    loop = load_loop(LOOPS / f"{name}.yaml")
    schedule = scheduled(loop)
    of = events(tmp_path, loop, schedule)
    names = [op.name for op in loop.operations]
    for n in range(schedule.stages(loop) + 4):
        done = play(of(n))
        assert sorted(done) == sorted((op, i) for op in names for i in range(n))
        at = {event: number for number, event in enumerate(done)}
        for e in loop.dependences:
            if not (e.blocking or schedule.teams[e.source] != schedule.teams[e.sink]):
                continue
            for i in range(n - e.distance):
                assert at[names[e.source], i] < at[names[e.sink], i + e.distance]


@needs_compiler
def test_random_loops(tmp_path):
    for seed in range(8):
        loop = small_loop(seed)
        result = run(loop, Request(solver="rau", budget_seconds=10))
        if result.schedule is None:
            continue
        of = events(tmp_path, loop, result.schedule)
        for n in (0, 1, 2, 7):
            expected = sorted((op.name, i) for op in loop.operations for i in range(n))
            assert sorted(play(of(n))) == expected


def test_a_lost_arrival_is_seen():
    """The player of these tests stops where a skeleton lacks an arrival."""
    with pytest.raises(AssertionError, match="nobody"):
        play([[("wait_A", 0), ("B", 0)], [("A", 0)]])


def test_pseudocode_has_the_phases_of_every_group():
    loop = load_loop(LOOPS / "fa3_forward.yaml")
    text = pseudocode(loop, scheduled(loop))
    for line in ("group producer: 1 warp", "group consumer0: 4 warps, 240 registers a thread"):
        assert line in text
    assert text.count("prologue") == text.count("epilogue") == 3
    assert "steady state, for i = " in text and "wait for LK[i]" in text


def test_the_command_writes_both(tmp_path):
    code, cuda = tmp_path / "p.txt", tmp_path / "p.cu"
    path = str(LOOPS / "toy_gemm.yaml")
    assert titan(["schedule", path, "--code", str(code), "--cuda", str(cuda)]) == 0
    assert "steady state" in code.read_text() and "__global__" in cuda.read_text()
