"""Numbers that PTX does not allow make an instruction unknown: the table beside ptxas."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from titan.isa.ptx.parse import parse
from titan.isa.simt.decode_context import Unsupported
from titan.isa.simt.immediates import FORMS, check_immediates

PTXAS = shutil.which("ptxas")
NUMBERS = (
    -1, 0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 23, 24, 28, 31, 32, 33, 48, 64, 128, 255, 256, 257, 264,
    512, 1000, 1024, 1056, 4096, 1048560, 1048575, 1048576,
)  # fmt: skip
HEAD = """.version {version}
.target {target}
.address_size 64
.visible .entry k() {{
.reg .b32 r<9>; .reg .b64 d<9>; .reg .pred q; .reg .f32 f<9>; .reg .b32 h<9>;
"""
WGMMA = "wgmma.mma_async.sync.aligned."
MMA = "tcgen05.mma.cta_group::1."
INTO = "{{f1, f2, f3, f4}}, d1, d2, q"
# One instruction for each row of the table, by form and operand; `{}` is the number.
INSTRUCTIONS = {
    ("bar sync !warp !cluster", 0): "bar.sync {}, 64",
    ("bar sync !warp !cluster", 1): "bar.sync 1, {}",
    ("bar arrive !warp !cluster", 0): "bar.arrive {}, 64",
    ("bar arrive !warp !cluster", 1): "bar.arrive 1, {}",
    ("bar red !warp !cluster", 1): "bar.red.popc.u32 r1, {}, q",
    ("barrier sync !warp !cluster", 0): "barrier.sync {}, 64",
    ("barrier sync !warp !cluster", 1): "barrier.sync.aligned 1, {}",
    ("barrier arrive !warp !cluster", 0): "barrier.arrive {}, 64",
    ("barrier arrive !warp !cluster", 1): "barrier.arrive 1, {}",
    ("barrier red !warp !cluster", 1): "barrier.red.popc.u32 r1, {}, q",
    ("setmaxnreg", 0): "setmaxnreg.inc.sync.aligned.u32 {}",
    ("tcgen05 alloc", 1): "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], {}",
    ("tcgen05 dealloc", 1): "tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, {}",
    ("tcgen05 mma kind::f16", -1): MMA + "kind::f16 [r1], d1, d2, r2, q, {}",
    ("tcgen05 mma kind::tf32", -1): MMA + "kind::tf32 [r1], d1, d2, r2, q, {}",
    ("wgmma wait_group", 0): "wgmma.wait_group.sync.aligned {}",
    ("mbarrier arrive !expect_tx", -1): "mbarrier.arrive.shared.b64 d1, [r1], {}",
    ("mbarrier arrive_drop !expect_tx", -1): "mbarrier.arrive_drop.shared.b64 d1, [r1], {}",
    ("mbarrier test_wait parity", 2): "mbarrier.test_wait.parity.shared.b64 q, [r1], {}",
    ("mbarrier try_wait parity", 2): "mbarrier.try_wait.parity.shared.b64 q, [r1], {}",
    ("cp async ca", 2): "cp.async.ca.shared.global [r1], [d1], {}",
    ("cp async cg", 2): "cp.async.cg.shared.global [r1], [d1], {}",
    ("cp async ca", 3): "cp.async.ca.shared.global [r1], [d1], 16, {}",
    ("cp async cg", 3): "cp.async.cg.shared.global [r1], [d1], 16, {}",
    ("cp async bulk !tensor !prefetch", 2): "cp.async.bulk.global.shared::cta.bulk_group [d1],"
    " [r1], {}",
    ("cp async bulk prefetch !tensor", 1): "cp.async.bulk.prefetch.L2.global [d1], {}",
    ("applypriority", 1): "applypriority.global.L2::evict_normal [d1], {}",
    ("cp reduce async bulk !tensor", 2): "cp.reduce.async.bulk.global.shared::cta.bulk_group"
    ".add.u32 [d1], [r1], {}",
    ("fence proxy tensormap::generic acquire", 1): "fence.proxy.tensormap::generic.acquire.gpu"
    " [d1], {}",
    **{
        (f"wgmma mma_async {kind} !sp", place): (
            f"{WGMMA}m64n8k{depth}.f32.{kind}.{kind} {INTO}, "
            + ", ".join("{}" if place == at else "1" for at in range(4, 8 if depth == 16 else 6))
        )
        for kind, depth in (("f16", 16), ("bf16", 16), ("tf32", 8), ("e4m3", 32), ("e5m2", 32))
        for place in range(4, 8 if depth == 16 else 6)
    },
}
# PTX has fewer than ptxas takes: counts of arrivals, and columns that were allocated.
STRICTER = ("tcgen05 dealloc", "mbarrier arrive", "mbarrier arrive_drop")


def head_of(line: str) -> str:
    """The lines before an instruction, in the oldest version that has it."""
    if "tcgen05" in line:
        return HEAD.format(version="8.6", target="sm_100a")
    return HEAD.format(version="8.3", target="sm_90a")


def refused_by_ptxas(folder: Path, lines: list[str]) -> set[int]:
    """The places of the instructions that ptxas complains of."""
    head = head_of(lines[0])
    target = "sm_100a" if "sm_100a" in head else "sm_90a"
    path = folder / "k.ptx"
    path.write_text(head + "".join(f"{line};\n" for line in lines) + "ret;\n}\n", "utf-8")
    assert PTXAS is not None
    command = [PTXAS, "-arch", target, str(path), "-o", os.devnull]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    told = ran.stdout + ran.stderr
    assert "syntax error" not in told.lower() and "unknown symbol" not in told.lower(), told
    numbers = re.findall(r"line (\d+); error", told)
    assert bool(numbers) == bool(ran.returncode), told
    return {int(number) - head.count("\n") - 1 for number in numbers}


def refused(line: str) -> bool:
    module, findings = parse(f"{head_of(line)}{line};\nret;\n}}\n", "k.ptx")
    assert module is not None, findings
    try:
        check_immediates(module.instructions[0])
    except Unsupported as reason:
        assert "PTX has" in str(reason)
        return True
    return False


def test_every_row_is_tried():
    assert {(row.form, row.operand) for row in FORMS} == set(INSTRUCTIONS)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize(("row", "text"), INSTRUCTIONS.items())
def test_what_ptxas_refuses_is_refused(row: tuple[str, int], text: str, tmp_path: Path):
    lines = [text.format(number) for number in NUMBERS]
    theirs = refused_by_ptxas(tmp_path, lines)
    ours = {place for place, line in enumerate(lines) if refused(line)}
    assert theirs <= ours and len(ours) < len(lines)
    if not row[0].startswith(STRICTER):
        assert ours == theirs, {NUMBERS[place] for place in ours - theirs}


@pytest.mark.parametrize("text", ["bar.warp.sync -1", "barrier.cluster.arrive.aligned"])
def test_other_barriers_have_no_such_numbers(text: str):
    assert not refused(text)


def test_registers_are_left_to_the_run():
    assert not refused("bar.sync r1, r2")
    assert not refused("mbarrier.arrive.shared.b64 d1, [r1]")
