"""Which left operands waves hold in registers, and what becomes of them in a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.emit.hip_kernels import SOURCE, make, shape
from titan.codegen.pipeline.cdna import shared_bytes_of
from titan.codegen.tile.held import HELD_BYTES_MAX, held_operands, loads_of
from titan.codegen.tile.load import read_tile
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import operand_bytes
from titan.foundation.resources import root
from titan.foundation.source.span import Source

FORWARD = (root("protocols") / "tiles" / "attention_forward_gfx942.yaml").read_text()
DKV = (root("protocols") / "tiles" / "attention_backward_dkv_gfx942.yaml").read_text()
NVIDIA = (root("protocols") / "tiles" / "attention_forward.yaml").read_text()


def tile(text: str, target: str = "gfx942"):
    return read_tile(Source("tile.yaml", text), target)


def test_queries_are_held_and_read_from_lds_no_more():
    found = tile(FORWARD)
    assert held_operands(found) == {"q"}
    assert [item.name for item in loads_of(found)] == ["k", "v"]
    assert shared_bytes_of(found, 2) == 2 * 2 * 64 * 128 * 2
    known = rates("gfx942")
    assert operand_bytes(found, found.operation("s"), known) == 4 * 64 * 128 * 2
    assert held_operands(tile(DKV)) == {"k", "v"}


@pytest.mark.parametrize(("old", "new"), [
    ("mma: [q, k.T]", "mma: [k, q.T]"),
    ("Q: {shape: [heads, queries, head], dtype: bf16}",
     "Q: {shape: [heads, queries, head], dtype: bf16, aligned: false}"),
    ("Q: {shape: [heads, queries, head]", "Q: {shape: [heads, queries, keys]"),
    ('load: "Q[h, i * rows, 0]"', 'load: "Q[h, i * rows, 4]"'),
    ('load: "Q[h, i * rows, 0]"', 'load: "Q[h, i * rows, i]"'),
])  # fmt: skip
def test_what_is_not_held(old: str, new: str):
    assert old in FORWARD
    changed = FORWARD.replace(old, new)
    if new == "mma: [k, q.T]":
        changed = changed.replace("rows: 128, columns: 64", "rows: 64, columns: 64")
    assert not held_operands(tile(changed))


def test_only_what_registers_have_room_for_is_held():
    assert held_operands(tile(FORWARD.replace("groups: 4", "groups: 1"))) == {"q"}
    assert HELD_BYTES_MAX == 128 * 128 * 2 // 64
    larger = FORWARD.replace("groups: 4", "groups: 1").replace("rows: 128", "rows: 256")
    assert not held_operands(tile(larger))
    assert not held_operands(replace(tile(FORWARD), tail="poison"))
    assert not held_operands(tile(NVIDIA, "sm_90a"))


def test_they_are_loaded_before_anything_is_copied():
    text = make(tile(FORWARD), shape(2)).emitted.files[SOURCE]
    held = text.index("titan::hold_operand<titan::bf16, 32, true>(o_s_left")
    assert held < text.index("titan::copy_tile")
    assert text.index("titan::loaded(o_s_left)") < text.index("// Main loop")
    assert "read_operand<titan::bf16, 128, 32, true>(o_s_left" not in text
