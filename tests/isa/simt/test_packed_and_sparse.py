"""What tcgen05.ld and .st that pack 16 bits touch, and what products by a sparse matrix read, on
both machines."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from tests.isa.simt.test_scales_of_pairs import PLAIN, tensor_columns
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace

FRAME = """
.shared .align 128 .b8 tiles[16384];
.shared .align 4 .b32 place;
mov.u32 %r0, %tid.x;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 512;
ld.shared.u32 %r3, [place];
mov.u32 %r5, tiles;
cvt.u64.u32 %d0, %r5;
shr.u64 %d0, %d0, 4;
or.b64 %d0, %d0, {plain};
{body}
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;
ret;
"""
STORED = "tcgen05.st.sync.aligned.{shape}{word}.b32 [%r3+16], {values};"
LOADED = "tcgen05.ld.sync.aligned.{shape}{word}.b32 {values}, [%r3+16];"


def effects(body: str, kind: ev.RecordedOperation) -> list[ev.RecordedEffect]:
    """Those of the only operation of the kind; the allocation begins at some column."""
    made = ran(module_of(FRAME.format(body=body, plain=PLAIN)), launch_of())
    assert not of(made, ev.MemoryFault)
    (found,) = (e for e in of(made, ev.AsynchronousEvent) if e.kind is kind)
    return list(found.effects)


@pytest.mark.parametrize(
    ("shape", "registers", "columns"),
    [("32x32b.x8", 8, 8), ("16x64b.x4", 4, 8), ("16x128b.x2", 4, 8), ("16x256b.x1", 4, 8)],
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("loads", [False, True])
def test_a_register_of_two_halves_is_of_two_columns(shape, registers, columns, packed, loads):
    word = ("", "") if not packed else (".unpack::16b", ".pack::16b")
    values = "{" + ", ".join(f"%r{20 + n}" for n in range(registers)) + "}"
    form = (LOADED if loads else STORED).format(shape=shape, word=word[loads], values=values)
    kinds = ev.RecordedOperation
    (effect,) = effects(form, kinds.TENSOR_LOAD if loads else kinds.TENSOR_STORE)
    _, lanes, first, found = tensor_columns(effect)
    assert (lanes, first, found) == (int(shape[:2]), 16, columns << packed)


@pytest.mark.parametrize(("kind", "columns"), [("f16", 1), ("tf32", 1), ("f8f6f4", 2)])
@pytest.mark.parametrize("rows", [64, 128])
def test_a_sparse_product_reads_twice_as_far_along_k_and_metadata(kind, columns, rows):
    instruction = 8 >> 3 << 17 | rows >> 4 << 24 | 1 << 2
    body = f"""
mov.u32 %r6, {instruction};
tcgen05.mma.sp.cta_group::1.kind::{kind} [%r3], %d0, %d0, [%r3+32], %r6, 0;
"""
    found = effects(body, ev.RecordedOperation.TENSOR_MULTIPLY)
    read = [effect for effect in found if effect.mode is ev.Mode.READ]
    metadata = [e for e in read if e.footprint.space is MemorySpace.TENSOR]
    parts = 1 if rows == 128 else 4
    assert [tensor_columns(e)[1:] for e in metadata] == [(rows // parts, 32, columns)] * parts
    # units of 16 bytes of a row lie at one place here: eight rows are 128 bytes
    sizes = [e.footprint.bounds for e in read if e.footprint.space is MemorySpace.SHARED]
    assert [high - low for low, high in sizes] == [rows * 16, 8 * 16]


def test_right_operands_of_sparse_products_are_of_64_bytes():
    apart = f"or.b64 %d1, %d0, {8 << 16};"  # units along K are 128 bytes apart
    body = f"""
{apart}
mov.u32 %r6, {8 >> 3 << 17 | 8 << 24 | 1 << 2};
tcgen05.mma{{sp}}.cta_group::1.kind::f16 [%r3], %d1, %d1, {{metadata}}%r6, 0;
"""
    for sp, metadata, units in (("", "", 2), (".sp", "[%r3+32], ", 4)):
        made = body.format(sp=sp, metadata=metadata)
        found = effects(made, ev.RecordedOperation.TENSOR_MULTIPLY)
        *_, right = (e for e in found if e.footprint.space is MemorySpace.SHARED)
        low, high = right.footprint.bounds
        assert high - low == units * 128


SPARSE = """
.shared .align 128 .b8 tiles[16384];
mov.u32 %r5, tiles;
cvt.u64.u32 %d0, %r5;
shr.u64 %d0, %d0, 4;
or.b64 %d0, %d0, 34359738368;
mov.u32 %r7, 17476;
wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, {left}, %d0, %r7, 0,
  1, 1, 1{more};
wgmma.commit_group.sync.aligned;
{early}
wgmma.wait_group.sync.aligned 0;
ret;
"""
LEFT = {"%d0": ", 0, 0", "{%r20, %r21, %r22, %r23}": ", 0"}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize(("early", "faults"), [("", 0), ("mov.u32 %r7, 1;", 1)])
def test_metadata_of_wgmma_stays_until_the_product_is_done(left, early, faults):
    body = SPARSE.format(left=left, more=LEFT[left], early=early)
    made = ran(module_of(body), launch_of(block=128))
    events = of(made, ev.AsynchronousEvent)
    assert len({event.sources[-1] for event in events}) == 1
    assert len(events[0].sources) == (1 if left == "%d0" else 5)
    assert len(of(made, ev.RegisterBreach)) == 4 * faults
