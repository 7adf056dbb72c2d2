"""The gate derives certificates of verdicts anew, and holds them against the kernel beside them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.proof.kernels import ROOT, certificate
from titan.package.gate import PROOF, GateItem, Judged, find, judge_proof
from titan.proof.check import sealed

KERNEL = ROOT / "protocols" / "mi300_gemm.yaml"


def judged(folder: Path, text: str) -> Judged:
    path = folder / "kernel.cert"
    path.write_text(text, "utf-8", newline="\n")
    (item,) = find((str(path),))
    assert item == GateItem(PROOF, str(path))
    return judge_proof(item)


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
    assert "cannot be read" in judge_proof(GateItem(PROOF, str(path))).why
