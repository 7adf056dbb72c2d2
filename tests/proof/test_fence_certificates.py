"""Certificates of fence sets: written for the library, and refused when anything is changed."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.proof.kernels import ROOT, programs
from titan.cli.main import run
from titan.proof.check import RefusedError, sealed
from titan.proof.fence_check import check_fences, fences_of, without_fence
from titan.proof.fence_write import write_fences
from titan.sync import program as ir
from titan.sync.open_numbers import NotCoveredError

FENCED = ("blackwell_gemm", "fa3_backward", "hopper_gemm_persistent", "hopper_gemm_pingpong")


@cache
def certificate(name: str) -> str:
    return write_fences(programs(name)[0])


def resealed(lines: list[str]) -> str:
    return sealed("\n".join(lines[:-2]) + "\n")


@pytest.mark.parametrize("name", FENCED)
def test_each_fence_of_the_library_has_its_interleaving(name: str) -> None:
    covered = check_fences(certificate(name))
    assert covered.fences == len(fences_of(programs(name)[0])) > 0
    assert covered.steps > 5 * covered.fences


def test_a_fence_is_taken_out_alone() -> None:
    program = programs("fa3_backward")[0]
    for number in range(len(fences_of(program))):
        left = fences_of(without_fence(program, number))
        assert left == [f for n, f in enumerate(fences_of(program)) if n != number]


def test_changed_lines_are_refused() -> None:
    lines = certificate("fa3_backward").split("\n")
    for place in range(2, len(lines) - 2):
        words = lines[place].split(" ")
        changes = [words[:-1], [*words, words[-1]], [*words[:4], *words[5:]], [words[0], "7"]]
        changes += [[re.sub(r"TTN\d+", "TTN201", word) for word in words]]
        changes += [[*words[:2], re.sub(r"\d+", "0", words[2]), *words[3:]]]
        for changed in changes:
            with pytest.raises(RefusedError):
                check_fences(resealed([*lines[:place], " ".join(changed), *lines[place + 1 :]]))
        with pytest.raises(RefusedError):
            check_fences(resealed([*lines[:place], *lines[place + 1 :]]))
    with pytest.raises(RefusedError):
        check_fences("\n".join(lines[:-2]))


def test_a_fence_too_many_has_no_certificate() -> None:
    """The same fence twice: without one of them nothing fails."""
    program = programs("hopper_gemm_pingpong")[0]

    def doubled(body: ir.Block) -> ir.Block:
        found: list[ir.Operation] = []
        for item in body:
            inner = item
            if isinstance(item, ir.Loop):
                inner = replace(item, body=doubled(item.body))
            elif isinstance(item, ir.Branch):
                arms = doubled(item.then), doubled(item.otherwise)
                inner = replace(item, then=arms[0], otherwise=arms[1])
            found += [inner, inner] if isinstance(item, ir.Fence) else [inner]
        return tuple(found)

    roles = tuple(replace(role, body=doubled(role.body)) for role in program.roles)
    with pytest.raises(NotCoveredError, match="nothing fails without fence 0"):
        write_fences(replace(program, roles=roles), 20_000)


def test_the_command_line_writes_and_checks_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = str(ROOT / "protocols" / "blackwell_gemm.yaml")
    assert run(["fences", kernel, "--certificate", str(tmp_path / "fences")]) == 0
    path = str(min((tmp_path / "fences").iterdir()))
    assert run(["check", path, "--kernel", kernel]) == 0
    assert "without any one of its 1 fences" in capsys.readouterr().out
    assert run(["check", path, "--kernel", str(ROOT / "protocols" / "hopper_gemm.yaml")]) == 2
