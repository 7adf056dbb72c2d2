"""`titan mutants` on kernel files: exit codes, formats, bad input."""

import json

import pytest

from titan.cli.main import run
from titan.verify.mutate import judge

RING = """\
titan: 1
kernel: ring
target: sm_90a
sizes: {tiles: 4, depth: 2}
buffers:
  A: {space: shared, stages: depth, tile: [64, 64], dtype: bf16}
rings:
  operands: {buffers: [A], depth: depth}
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 2}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - produce: operands[t]
    - finalize
  consumer:
    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - issue: {mma: [A[t]], as: group}
        - drain: group
        - release: operands[t]
    - finalize
"""


@pytest.fixture
def ring(tmp_path):
    path = tmp_path / "ring.yaml"
    path.write_text(RING)
    return path


def test_every_mutant_of_a_ring_is_accounted_for(ring, capsys):
    assert run(["mutants", str(ring)]) == 0
    told = capsys.readouterr().out
    assert "0 surviving, 0 undecided" in told
    assert "killed:" not in told
    assert run(["mutants", str(ring), "--all"]) == 0
    assert "killed: deleted: wait for" in capsys.readouterr().out


def test_json_lists_every_mutant_with_its_argument(ring, capsys):
    assert run(["mutants", str(ring), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["verdict"] == "verified"
    assert sum(row["counts"].values()) == len(row["mutants"]) > 20
    assert all(mutant["argument"] for mutant in row["mutants"])
    killed = [mutant for mutant in row["mutants"] if mutant["fate"] == "killed"]
    assert all(mutant["rule"].startswith("TTN") for mutant in killed)


def test_the_table_has_one_row_a_kernel(ring, capsys):
    assert run(["mutants", str(ring.parent), "--depth", "2,3", "--format", "markdown"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 5
    assert rows[2].startswith("| `ring, ") and "depth 2" in rows[2] and "depth 3" in rows[3]


def test_a_refuted_kernel_is_not_mutated(ring, capsys):
    ring.write_text(RING.replace("        - drain: group\n", ""))
    assert run(["mutants", str(ring)]) == 1
    assert "not mutated, it is refuted itself" in capsys.readouterr().out


def test_a_spent_budget_gives_exit_code_3(ring, capsys):
    assert run(["mutants", str(ring), "--budget-states", "3"]) == 3
    assert "undecided" in capsys.readouterr().out


def test_bad_input_is_told(ring, capsys):
    ring.write_text("titan: 1\nkernel: [\n")
    assert run(["mutants", str(ring)]) == 2
    assert run(["mutants", str(ring.parent / "none.yaml")]) == 2


def test_the_budget_is_told(ring, capsys):
    assert run(["mutants", str(ring), "--budget-seconds", "5"]) == 0
    told = capsys.readouterr().err
    assert told == "kernels: 1, budget: 1,000,000 states a mutant\n"


@pytest.mark.parametrize("format_name", ["text", "markdown", "json"])
def test_an_interruption_shows_what_was_done(ring, capsys, monkeypatch, format_name):
    judged = judge.judge_all

    def interrupted(program, *rest):
        if any(barrier.stages == 3 for barrier in program.barriers):
            raise KeyboardInterrupt
        return judged(program, *rest)

    monkeypatch.setattr(judge, "judge_all", interrupted)
    command = ["mutants", str(ring), "--depth", "2,3", "--format", format_name]
    assert run(command) == 130
    told = capsys.readouterr()
    assert "depth 2" in told.out and "depth 3" not in told.out
    assert "interrupted" in told.err
