"""What writes memory writes none that is read-only, nor any that it cannot reach (`TTN219`).

A generic address names a window by its value, so the text does not show which one is meant.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import verified
from tests.isa.simt.running import OUT, launch_of
from titan.isa.ptx.parse import parse
from titan.isa.simt import events as ev
from titan.isa.simt.launch import LaunchParameter
from titan.isa.simt.run import run

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.const .align 128 .b8 fixed[128];
.visible .entry k(.param .align 128 .b8 x[128], .param .u64 y)
.reqntid 32
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>;
  .shared .align 128 .b8 s[256]; .local .align 128 .b8 mine[128];
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r2, 0; mov.u32 %r3, 0;
  ADDRESS
  BODY
  ret;
}
"""
WINDOWS = {
    "parameter": "mov.b64 %d1, x; cvta.param.u64 %d1, %d1;",
    "constant": "mov.b64 %d1, fixed; cvta.const.u64 %d1, %d1;",
    "thread": "mov.b64 %d1, mine; cvta.local.u64 %d1, %d1;",
    "shared": "mov.b64 %d1, s; cvta.shared.u64 %d1, %d1;",
    "global": "ld.param.u64 %d1, [y];",
}
STORES = {  # what each may write
    "@%p1 st.u32 [%d1], 1;": ("thread", "shared", "global"),
    "@%p1 st.v2.u32 [%d1+8], {1, 2};": ("thread", "shared", "global"),
    "@%p1 st.volatile.u32 [%d1], 1;": ("thread", "shared", "global"),
    "@%p1 st.relaxed.gpu.u32 [%d1], 1;": ("thread", "shared", "global"),
    "@%p1 atom.add.u32 %r4, [%d1], 1;": ("shared", "global"),
    "@%p1 atom.cas.b32 %r4, [%d1], 1, 2;": ("shared", "global"),
    "@%p1 red.add.u32 [%d1], 1;": ("shared", "global"),
    "stmatrix.sync.aligned.m8n8.x1.b16 [%d2], {%r1};": ("shared",),
    "wmma.store.d.sync.aligned.row.m8n32k16.s32 [%d1], {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};":
        ("shared", "global"),
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d1], 32;": ("shared",),
    "@%p1 tensormap.replace.tile.rank.b1024.b32 [%d1], 1;": ("shared", "global"),
}  # fmt: skip
READS = {
    "ld.u32 %r4, [%d1];": ("parameter", "constant", "thread", "shared", "global"),
    "ldmatrix.sync.aligned.m8n8.x1.b16 {%r4}, [%d2];": ("shared",),
}


CASES = [
    (window, body, window in allowed)
    for body, allowed in (STORES | READS).items()
    for window in WINDOWS
]


@pytest.mark.parametrize(("window", "body", "right"), CASES)
def test_each_form_in_each_window(window, body, right):
    more = "and.b32 %r5, %r1, 7; mul.wide.u32 %d2, %r5, 16; add.u64 %d2, %d2, %d1;"
    text = KERNEL.replace("ADDRESS", WINDOWS[window] + more).replace("BODY", body)
    finding = verified(text, "{grid: 1, dynamic_shared: 0, parameters: [unknown, pointer]}")
    found = [item.headline for item in finding.diagnostics if item.code == "TTN219"]
    assert any("memory that the instruction cannot use" in one for one in found) is not right
    module, errors = parse(text, "k.ptx")
    assert module is not None, errors
    launch = launch_of(
        parameters=(LaunchParameter(bytes(128)), LaunchParameter(OUT.to_bytes(8, "little")))
    )
    by_python, _ = run(module, launch, native=False)
    assert by_python is not None
    wrong = [
        event for event in by_python.events
        if isinstance(event, ev.MemoryFault) and event.fault is ev.MemoryFaultKind.WRONG_SPACE
    ]  # fmt: skip
    assert bool(wrong) is not right
