"""The gate derives certificates of verdicts anew, and holds them against the kernel beside them."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.frontends.story import ring
from tests.proof.kernels import ROOT, certificate, programs
from titan.frontends.ptx.alike import merged_alike
from titan.package.failures import GateFailure
from titan.package.gate import PROOF, GateItem, GateRules, Judged, find, judge_proof
from titan.proof.check import sealed
from titan.proof.fence_write import write_fences
from titan.proof.run_write import write_run
from titan.proof.write import FaultyError, write
from titan.sync import program as ir
from titan.sync.open_numbers import NotCoveredError

KERNEL = ROOT / "protocols" / "mi300_gemm.yaml"


def judged(folder: Path, text: str, allow_bounded: bool = False) -> Judged:
    path = folder / "kernel.cert"
    path.write_text(text, "utf-8", newline="\n")
    (item,) = find((str(path),))
    assert item == GateItem(PROOF, str(path))
    return judge_proof(item, GateRules(allow_bounded=allow_bounded))


def test_a_certificate_passes_beside_its_kernel(tmp_path: Path) -> None:
    alone = judged(tmp_path, certificate("mi300_gemm"))
    assert alone.ok and alone.stated == ("no kernel file next to it",)
    shutil.copy(KERNEL, tmp_path / "kernel.yaml")
    found = judged(tmp_path, certificate("mi300_gemm"))
    assert found.ok and found.name == "mi300_gemm" and found.stated == ("of kernel.yaml",)
    assert "any from" in found.scope and not found.policies
    assert GateItem(PROOF, str(tmp_path / "kernel.cert")) in find((str(tmp_path),))


def test_a_certificate_of_another_kernel_fails(tmp_path: Path) -> None:
    shutil.copy(KERNEL, tmp_path / "kernel.yaml")
    found = judged(tmp_path, certificate("ampere_gemm_multistage"))
    assert not found.ok and "another program than kernel.yaml" in found.why


@pytest.mark.parametrize("place", [5, 20, 36])
def test_an_altered_certificate_fails(tmp_path: Path, place: int) -> None:
    lines = certificate("mi300_gemm")[:-1].split("\n")
    place = next(n for n in range(place, len(lines)) if ">" in lines[n])  # the end has no steps
    altered = re.sub(r">(\d+)", lambda m: f">{int(m.group(1)) + 1}", lines[place], count=1)
    assert altered != lines[place]
    lines[place] = altered
    assert "refused" in judged(tmp_path, "\n".join([*lines, ""])).why
    body = "\n".join([*lines[:-1], ""])
    found = judged(tmp_path, sealed(body))
    assert not found.ok and f"line {place + 1}" in found.why


def test_what_is_no_certificate_fails(tmp_path: Path) -> None:
    assert "refused" in judged(tmp_path, "titan: 1\n").why
    path = tmp_path / "other.cert"
    path.write_bytes(b"\xff\xfe")
    assert "cannot be read" in judge_proof(GateItem(PROOF, str(path)), GateRules()).why


def test_a_certificate_for_some_numbers_fails_unless_they_are_accepted(tmp_path: Path) -> None:
    """Without its first waits the kernel is refuted, and yet certified for no tiles at all."""
    program = programs("mi300_gemm")[0]
    unsafe = replace(program, roles=tuple(without_waits(role) for role in program.roles))
    with pytest.raises((FaultyError, NotCoveredError)):
        write(unsafe)
    text = write(unsafe, {"tiles": 0})
    found = judged(tmp_path, text)
    assert not found.ok and found.failure is GateFailure.BOUNDED
    assert "tiles = 0" in found.scope and "--allow-bounded" in found.why
    accepted = judged(tmp_path, text, allow_bounded=True)
    assert accepted.ok and accepted.bounded


def without_waits(role: ir.Role) -> ir.Role:
    def kept(body: ir.Block) -> ir.Block:
        return tuple(
            replace(item, body=kept(item.body)) if isinstance(item, ir.Loop) else item
            for item in body
            if not isinstance(item, ir.QueueWait | ir.BarrierSync)
        )

    return replace(role, body=kept(role.body))


def test_certificates_of_runs_and_of_fences_are_derived_too(tmp_path: Path) -> None:
    run = write_run(merged_alike([ring(5, 2).recording().program])[0][0])
    found = judged(tmp_path, run)
    assert found.ok and found.scope == "one launch of the code"
    lines = run.split("\n")
    altered = judged(tmp_path, sealed("\n".join([*lines[:-3], ""])))
    assert not altered.ok and altered.failure is GateFailure.UNPROVED
    fenced = programs("grouped_gemm")[0]
    found = judged(tmp_path, write_fences(fenced))
    assert found.ok and "no verdict" in found.scope
    shutil.copy(ROOT / "protocols" / "grouped_gemm.yaml", tmp_path / "kernel.yaml")
    assert judged(tmp_path, write_fences(fenced)).stated == ("of kernel.yaml",)
    assert "another program" in judged(tmp_path, run).why


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "x.cert"
    os.mkfifo(pipe)
    (item,) = find((str(tmp_path),))
    assert not judge_proof(item, GateRules()).ok
