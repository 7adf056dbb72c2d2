"""wmma.load and wmma.store as rows: which bytes, and what happens to the rest of the module."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, ran
from titan.isa.ptx.module import PtxTarget, Targets
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace

BEFORE = ".shared .align 128 .b8 s[65536];"
# The extents of A, B and the sum in memory, by the CUDA guide's list of element types and sizes.
FORMS = [
    ("load.a", "row", "m16n16k16", "f16", 16, 32), ("load.a", "col", "m16n16k16", "bf16", 16, 32),
    ("load.a", "row", "m32n8k16", "f16", 32, 32), ("load.a", "col", "m32n8k16", "f16", 16, 64),
    ("load.b", "row", "m32n8k16", "f16", 16, 16), ("load.b", "col", "m8n32k16", "s8", 32, 16),
    ("load.b", "row", "m16n16k8", "tf32", 8, 64), ("load.a", "row", "m8n8k4", "f64", 8, 32),
    ("load.a", "row", "m8n8k32", "s4", 8, 16), ("load.b", "col", "m8n8k128", "b1", 8, 16),
    ("load.c", "row", "m16n16k16", "f32", 16, 64), ("store.d", "col", "m32n8k16", "f16", 8, 64),
    ("store.d", "row", "m8n8k4", "f64", 8, 64), ("store.d", "row", "m8n8k32", "s32", 8, 32),
]  # fmt: skip


def instruction(verb: str, layout: str, shape: str, kind: str, stride: int | None) -> str:
    register = "%d8" if kind == "f64" else "%r8"
    values, place = f"{{{register}}}", "[%r1+16]"
    order = f"{values}, {place}" if verb.startswith("load") else f"{place}, {values}"
    more = "" if stride is None else f", {stride}"
    return f"wmma.{verb}.sync.aligned.{layout}.{shape}.shared.{kind} {order}{more};"


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form[:4])))
def test_the_bytes_of_a_matrix(form, padded):
    verb, layout, shape, kind, rows, row_bytes = form
    bits = {"f16": 16, "bf16": 16, "s8": 8, "s4": 4, "b1": 1, "f64": 64}.get(kind, 32)
    pitch_bytes = row_bytes + (16 if padded else 0)
    text = instruction(verb, layout, shape, kind, pitch_bytes * 8 // bits if padded else None)
    body = "mov.u32 %r1, s; add.u32 %r1, %r1, 256; mov.u32 %r8, 7; mov.u64 %d8, 7;" + text + "ret;"
    events = [e for e in ran(module_of(body, BEFORE), launch_of()).events
              if isinstance(e, ev.AccessEvent)]  # fmt: skip
    assert len(events) == 1 and events[0].footprint.space is MemorySpace.SHARED
    assert events[0].mode is (ev.Mode.READ if verb.startswith("load") else ev.Mode.WRITE)
    base = events[0].footprint.bounds[0]
    found = {at for low, high in events[0].footprint.ranges() for at in range(low, high)}
    wanted = {base + pitch_bytes * row + at for row in range(rows) for at in range(row_bytes)}
    assert found == wanted and base % 256 == 16


def test_labels_and_other_functions_move_along():
    body = """
	mov.u32 %r1, s;
	mov.u32 %r8, 0;
	setp.eq.u32 %p1, %r8, 1;
	@%p1 bra END;
AGAIN:	wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r2}, [%r1], 16;
	add.u32 %r8, %r8, 1;
	setp.lt.u32 %p2, %r8, 3;
	@%p2 bra AGAIN;
END:	ret;
"""
    module = module_of(body, BEFORE)
    again, end = (
        item.operands[0].instruction for item in reversed(module.instructions)
        if item.opcode == "bra" and isinstance(item.operands[0], PtxTarget)
    )  # fmt: skip
    assert module.instructions[again].name == "mov.u32"
    assert module.instructions[again + 6].opcode == "wmma"
    assert module.instructions[end].opcode == "ret"
    assert module.functions[-1].end == len(module.instructions)
    events = [e for e in ran(module, launch_of()).events if isinstance(e, ev.AccessEvent)]
    assert len(events) == 3


def test_a_table_of_targets_moves_along():
    body = """
	mov.u32 %r1, s;
	mov.u32 %r8, 1;
	wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r2}, [%r1], 16;
T:	.branchtargets A, B;
	brx.idx %r8, T;
A:	trap;
B:	ret;
"""
    module = module_of(body, BEFORE)
    (table,) = (o for i in module.instructions for o in i.operands if isinstance(o, Targets))
    assert [module.instructions[at].opcode for at in table.instructions] == ["trap", "ret"]


def test_the_guard_is_that_of_the_access():
    """Addresses are computed by all lanes, the matrix is touched by those whose guard holds."""
    body = "mov.u32 %r1, s; setp.eq.u32 %p1, %r1, 77; mov.u32 %r8, 7; @%p1 "
    body += instruction("store.d", "row", "m16n16k16", "f32", 16) + "ret;"
    found = ran(module_of(body, BEFORE), launch_of())
    assert not [e for e in found.events if isinstance(e, ev.AccessEvent)]
