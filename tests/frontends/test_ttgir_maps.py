"""Tensor maps that a function writes: who acquires them, and who may overwrite them."""

from __future__ import annotations

import pytest

from tests.frontends.ttgir_samples import changed, code_of, verified, without
from titan.foundation.verdict import Verdict

# Each round writes the next of some maps, and starts a copy that the round after next waits for.
RING = """
#flat = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#tile = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @rounds(%p: !tt.ptr<f16>, %other: !tt.tensordesc<64x64xf16, #tile>, %n: i32) {
    %true = arith.constant true
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %bytes = arith.constant 128 : i32
    %stride = arith.constant 256 : i64
    %maps = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 384 : i32} : !tt.ptr<i8>
    %tiles = ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, #tile, #smem, mutable>
    %bars = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #flat, #smem, mutable>
    %bar0 = ttg.memdesc_index %bars[%zero] : BARS -> BAR
    ttng.init_barrier %bar0, 1 : BAR
    %bar1 = ttg.memdesc_index %bars[%one] : BARS -> BAR
    ttng.init_barrier %bar1, 1 : BAR
    %ends:2 = scf.for %i = %zero to %n step %one iter_args(%m = %zero, %k = %zero) -> TWO {
      %offset = arith.muli %m, %bytes : i32
      %map = tt.addptr %maps, %offset : !tt.ptr<i8>, i32
WAIT      ttng.tensormap_create %map, %p, [%bytes], [%n], [], [%one] {elem_type = 6 : i32} : CREATED
      ttng.tensormap_fenceproxy_acquire %map : !tt.ptr<i8>
      %d = ttng.reinterpret_tensor_descriptor %map : !tt.ptr<i8> to TENSOR
      ttng.barrier_expect %bar, 8192, %true : BAR
      ttng.async_tma_copy_global_to_local %d[%zero, %zero] %tile, %bar, %true : COPIED
      %m1 = arith.addi %m, %one : i32
      %around = arith.cmpi sge, %m1, %three : i32
      %next = arith.select %around, %zero, %m1 : i32
      scf.yield %next, %zero : i32, i32
    }
    %last = arith.addi %n, %two : i32
    scf.for %i = %n to %last step %one : i32 {
WAIT    }
    tt.return
  }
}
"""
WAIT = """\
      %stage = arith.remsi %i, %two : i32
      %bar = ttg.memdesc_index %bars[%stage] : BARS -> BAR
      %tile = ttg.memdesc_index %tiles[%stage] : TILES -> TILE
      %later = arith.cmpi sge, %i, %two : i32
      %round = arith.divsi %i, %two : i32
      %before = arith.addi %round, %one : i32
      %phase = arith.remsi %before, %two : i32
      scf.if %later {
        ttng.wait_barrier %bar, %phase : BAR
        %v = ttg.local_load %tile : TILE -> tensor<64x64xf16, #b>
      }
"""
RING = RING.replace("WAIT", WAIT)
for _word, _text in (
    ("CREATED", "(!tt.ptr<i8>, !tt.ptr<f16>, i32, i32, i32) -> ()"),
    ("COPIED", "TENSOR, BAR -> TILE"),
    ("TENSOR", "!tt.tensordesc<64x64xf16, #tile>"),
    ("TWO", "(i32, i32) : i32"),
):
    RING = RING.replace(_word, _text)
for _word, _type in (
    ("BARS", "2x1xi64, #flat"),
    ("BAR", "1xi64, #flat"),
    ("TILES", "2x64x64xf16, #tile"),
    ("TILE", "64x64xf16, #tile"),
):
    RING = RING.replace(_word, f"!ttg.memdesc<{_type}, #smem, mutable>")
ACQUIRE = "tensormap_fenceproxy_acquire"
COPY = r"async_tma_copy_global_to_local %d\["


def test_maps_of_a_ring_are_verified_for_any_number():
    finding = verified(RING, require="any")
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert {values for _, values in finding.coverage.parameters} == {None}


def test_two_maps_are_enough_and_one_is_not():
    """The copy that reads a map is waited for before the map after next is written."""
    two = changed(r"sge, %m1, %three", "sge, %m1, %two", RING)
    assert verified(two).verdict is Verdict.VERIFIED
    one = changed(r"sge, %m1, %three", "sge, %m1, %one", RING)
    assert code_of(verified(one)) == "TTN202"


def test_a_descriptor_that_is_selected_and_carried_is_followed():
    carried = changed("%k = %zero", "%k = %first", RING)
    made = "ttng.reinterpret_tensor_descriptor %maps : !tt.ptr<i8> to !tt.tensordesc<64x64xf16>\n"
    carried = carried.replace("    %ends:2", f"    %first = {made}    %ends:2")
    select = "      %e = arith.select %later, %k, %d : !tt.tensordesc<64x64xf16, #tile>\n"
    carried = carried.replace("      ttng.barrier_expect", f"{select}      ttng.barrier_expect")
    carried = carried.replace("_to_local %d[", "_to_local %e[").replace(
        "%next, %zero :", "%next, %d :"
    )
    assert verified(carried).verdict is Verdict.VERIFIED
    # A descriptor of the launch in its place may not be taken for one that is followed.
    other = carried.replace("yield %next, %d :", "yield %next, %other :")
    assert verified(other).verdict is Verdict.REFUSED


def test_a_descriptor_of_the_launch_needs_no_acquire():
    given = changed(COPY, "async_tma_copy_global_to_local %other[", RING)
    assert verified(given).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    "text",
    [
        without(ACQUIRE, RING),
        changed(f"{ACQUIRE} %map ", f"{ACQUIRE} %maps ", RING),  # that of another map
        changed(r"muli %m, %bytes", "muli %m, %three", RING),
    ],
    ids=["left out", "of another map", "at an unknown place"],
)
def test_what_is_not_followed_is_not_verified(text):
    finding = verified(text)
    assert finding.verdict is Verdict.REFUSED
    assert "tensor map" in finding.diagnostics[0].headline


def test_an_acquire_behind_the_copy_is_not_verified():
    lines = RING.split("\n")
    (at,) = [n for n, line in enumerate(lines) if ACQUIRE in line]
    (copy,) = [n for n, line in enumerate(lines) if "async_tma_copy" in line]
    lines.insert(copy + 1, lines[at])
    del lines[at]
    assert verified("\n".join(lines)).verdict is Verdict.REFUSED


def test_assembly_in_quotes_is_no_attribute():
    text = '"{ mov.b64 $0, { %1, $2 }; }" {constraints = "=l,r", pure = true} %n : i32 -> i32'
    made = f"    %x = tt.elementwise_inline_asm {text}\n    %maps ="
    assert verified(RING.replace("    %maps =", made)).verdict is Verdict.VERIFIED
    impure = made.replace("pure = true", "pure = false")
    assert verified(RING.replace("    %maps =", impure)).verdict is Verdict.REFUSED
