"""Registers that are vectors: their elements, the whole of them, families; as ptxas takes them."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.device.emulated import Emulated
from titan.foundation.verdict import Verdict
from titan.isa.numbers.device import LaunchShape
from titan.isa.ptx.module import PtxRegister, Vector
from titan.isa.ptx.parse import parse

LAUNCH = "{grid: 1, block: 2, parameters: {out: pointer}}"
HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
KERNEL = """.visible .entry k(.param .u64 out)
{
  .reg .v4 .s32 abcd, other; .reg .v2 .f32 pair<3>; .reg .b64 %d<4>; .reg .b32 %r<4>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, STEP;
  add.u64 %d1, %d1, %d2;
  mov.s32 abcd.x, 1; mov.s32 abcd.y, 2; mov.s32 abcd.b, 3; mov.s32 abcd.w, %r1;
  { .reg .s32 abcd; mov.s32 abcd, 7; }
  st.global.v4.s32 [%d1], abcd;
  mov.f32 pair2.r, 0f3f800000; mov.f32 pair2.y, 0f40000000;
  st.global.v2.f32 [%d1+16], pair2;
  ld.global.v4.s32 other, [%d1]; st.global.s32 [%d1+24], other.z;
  ret;
}
"""


def test_a_vector_is_a_register_for_each_element():
    module, faults = parse(HEAD + KERNEL.replace("STEP", "32"), "k.ptx")
    assert module is not None, faults
    stores = [item for item in module.instructions if item.opcode == "st"]
    (whole,) = (item.operands[1] for item in stores if "v4" in item.modifiers)
    assert isinstance(whole, Vector) and len(set(whole.items)) == 4
    assert isinstance(stores[-1].operands[1], PtxRegister)


def test_a_vector_is_stored_as_its_elements():
    device = Emulated(check="all")
    out = device.array(np.zeros(16, np.int32))
    shape = LaunchShape((1, 1, 1), (2, 1, 1))
    device.launch(HEAD + KERNEL.replace("STEP", "32"), shape, [out])
    floats = np.array([1, 2], np.float32).view(np.int32).tolist()
    assert out.values.tolist() == [1, 2, 3, 0, *floats, 3, 0, 1, 2, 3, 1, *floats, 3, 0]
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


def test_stores_of_vectors_that_overlap_race():
    """A vector is not one register of its element's type."""
    text = HEAD + KERNEL.replace("STEP", "4").split("mov.f32 pair2.r")[0] + "ret;\n}\n"
    finding = verified(text, LAUNCH)
    assert finding.verdict is Verdict.REFUTED and "TTN201" in codes(finding)


@pytest.mark.parametrize(
    "line",
    [
        "mov.s32 abcd.q, 1;", "mov.f32 pair0.z, 0f00000000;", "mov.f32 pair3.x, 0f00000000;",
        "mov.s32 none.x, 1;", ".reg .s32 abcd;",
    ],
)  # fmt: skip
def test_what_is_no_element_is_reported(line):
    text = HEAD + KERNEL.replace("STEP", "32").replace("mov.s32 abcd.x, 1;", line)
    module, faults = parse(text, "k.ptx")
    assert module is None and faults


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas")
def test_ptxas_takes_the_kernel(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + KERNEL.replace("STEP", "32"))
    subprocess.run(["ptxas", "-arch=sm_90a", str(path), "-o", str(tmp_path / "k")], check=True)
