"""Packages carry the certificate of their verdict; the check derives it anew."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.package.built import built, forged, write
from tests.proof.kernels import certificate
from titan.package import contents
from titan.package.certified import written_for
from titan.package.check import check_package
from titan.package.write import is_ours, package_files
from titan.proof.check import sealed
from titan.proof.write import write as written

FILL = Path(__file__).resolve().parents[2] / "protocols" / "tiles" / "row_sum_gfx942.yaml"


@cache
def files() -> dict[str, bytes]:
    made = built(FILL.read_text("utf-8"))
    text, told = written_for(made[0].program, 2000)
    assert text is not None and told.startswith(contents.PROOF)
    return package_files(*made, text)


def fault(tmp_path: Path, proof: bytes) -> str:
    changed = forged({**files(), contents.PROOF: proof})
    return check_package(write(tmp_path / "p", changed)).fault


def test_a_package_with_its_certificate_passes(tmp_path: Path) -> None:
    folder = write(tmp_path / "p", files())
    assert is_ours(folder)
    checked = check_package(folder)
    assert not checked.fault and checked.question is not None


def test_without_a_budget_there_is_none() -> None:
    assert written_for(built(FILL.read_text("utf-8"))[0].program, 0)[0] is None
    assert "none: more than 5" in written_for(built(FILL.read_text("utf-8"))[0].program, 5)[1]


def test_a_certificate_of_another_program_is_refused(tmp_path: Path) -> None:
    assert "another program" in fault(tmp_path, certificate("mi300_gemm").encode())


def test_a_certificate_for_fewer_sizes_is_refused(tmp_path: Path) -> None:
    from titan.package.canonical import for_engines

    program = for_engines(built(FILL.read_text("utf-8"))[0].program)
    (size,) = (p.name for p in program.parameters if p.value is None)
    narrow = written(program, {size: 2})
    assert "fewer sizes" in fault(tmp_path, narrow.encode())


@pytest.mark.parametrize("place", [6, 20])
def test_an_altered_certificate_is_refused(tmp_path: Path, place: int) -> None:
    lines = files()[contents.PROOF].decode()[:-1].split("\n")
    del lines[place]
    assert "refused" in fault(tmp_path, sealed("\n".join([*lines[:-1], ""])).encode())
    (tmp_path / "p").rename(tmp_path / "q")
    assert "refused" in fault(tmp_path, b"\xff")
