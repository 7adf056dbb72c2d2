"""Two GEMMs of eight waves, as clang compiles them: verified, right by their numbers, and broken.

One has a counted wait and one barrier a tile, in the manner of hipBLASLt; in the other one two
groups of four waves are a barrier apart, in the manner of Composable Kernel.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine
from titan.validate.compare.gcn_compile import CLANG, hip_assembly

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

FOLDER = Path(__file__).parents[3] / "benchmarks/amd"
TARGETS = ("gfx942", "gfx950")
NAMES = ("counted_gemm", "staggered_gemm")
FAULTS = {  # kernel, target or both, what is replaced by what
    "the counted wait leaves one more": ("counted_gemm", "gfx950", '"vmcnt(2)"', '"vmcnt(3)"'),
    "it waits for LDS": ("counted_gemm", "gfx950", '"vmcnt(2)"', '"lgkmcnt(0)"'),
    "no barrier behind it": ("counted_gemm", "gfx950", "    BAR;              /* everybody", "/*"),
    "one stage too few": ("counted_gemm", "gfx950", "STAGES = 3", "STAGES = 2"),
    "a copy too far ahead": ("counted_gemm", "gfx950", "LOAD(next, ", "LOAD(now, "),
    "copies that overlap": ("counted_gemm", "gfx950", "w * 1024", "w * 512"),
    "one stage in all": ("counted_gemm", "gfx942", "STAGES = 2", "STAGES = 1"),
    "no wait for the first stage": (
        "counted_gemm", "gfx942", 'WAIT("lgkmcnt(0)"); /* the first stage */', "",
    ),
    "no wait for the next stage": (
        "counted_gemm", "gfx942", 'WAIT("lgkmcnt(0)"); /* the next stage */', "",
    ),
    "the wait leaves one": (
        "counted_gemm", "gfx942", 'WAIT("lgkmcnt(0)"); /* the next stage */', 'WAIT("lgkmcnt(1)");',
    ),
    "the first tile is not awaited": ("staggered_gemm", "", "WAIT(YOUNGEST);  /* the first", "/*"),
    "the next tile is not awaited": ("staggered_gemm", "", "WAIT(YOUNGEST); /* the next", "/*"),
    "one copy more is left": ("staggered_gemm", "gfx950", '"vmcnt(2)"', '"vmcnt(3)"'),
    "one short copy more is left": ("staggered_gemm", "gfx942", '"vmcnt(8)"', '"vmcnt(9)"'),
    "two stages": ("staggered_gemm", "", "STAGES = 3", "STAGES = 2"),
    "no turn of reading": ("staggered_gemm", "", "BAR; /* in turn: read */", ""),
    "no turn of multiplying": ("staggered_gemm", "", "BAR; /* in turn: multiply */", ""),
    "nobody waits for the first tile of others": (
        "staggered_gemm", "", "BAR;             /* of all waves */", "",
    ),
}  # fmt: skip


@cache
def assembly(source: str, target: str, folder: Path) -> str:
    place = folder / "k.hip"
    place.write_text(source)
    return hip_assembly(place, target)


def verdict(source: str, target: str, folder: Path, inner: int) -> Verdict:
    launch = (
        "{grid: 4, block: 512, dynamic_shared: 0, "
        f"parameters: [pointer, pointer, pointer, 256, {inner}]}}"
    )
    return judged(assembly(source, target, folder), launch).verdict


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_the_gemm_is_verified(name, target, tmp_path):
    source = (FOLDER / f"{name}.hip").read_text()
    for inner in (32, 64, 96, 160):
        assert verdict(source, target, tmp_path, inner) is Verdict.VERIFIED


@pytest.mark.parametrize("name", FAULTS)
def test_the_broken_gemm_is_refuted(name, tmp_path):
    kernel, target, old, new = FAULTS[name]
    source = (FOLDER / f"{kernel}.hip").read_text()
    assert source.count(old) == 1
    for one in (target,) if target else TARGETS:
        assert verdict(source.replace(old, new), one, tmp_path, 160) is Verdict.REFUTED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_the_gemm_computes_the_product(name, target):
    text = hip_assembly(FOLDER / f"{name}.hip", target)
    code, errors = parse_assembly(Source("k.s", text))
    assert not errors, errors
    inner, side = 96, 128
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (side, inner)).astype(np.float16) for _ in range(2))
    c = np.zeros((side, side), np.float32)
    parts = [((1 + at) << 20, one.reshape(-1).view(np.uint8)) for at, one in enumerate((a, b, c))]
    given = [start.to_bytes(8, "little") for start, _ in parts]
    given += [value.to_bytes(4, "little") for value in (side, inner)]
    launch = Launch(None, (1, 1, 1), (512, 1, 1), parameters=tuple(map(LaunchParameter, given)))
    run = WaveMachine(
        code, code.kernels[0], launch, 0, 1_000_000, contents=Contents(parts)
    ).run()  # fmt: skip
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
