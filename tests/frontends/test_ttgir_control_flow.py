"""Functions of several blocks, and branches outside of loops that arguments or data decide."""

from __future__ import annotations

import pytest

from tests.frontends.ttgir_samples import code_of, sample, verified
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.parse import parse_ttgir

RING = sample("ring_gemm_fault0")
HEAD, BODY = RING.split("    %a_tiles = ttg.local_alloc", 1)
BODY = "    %a_tiles = ttg.local_alloc" + BODY
BRANCH = """\
    %limit = arith.constant 5 : i32
    %early = arith.cmpi CONDITION : i32
    cf.cond_br %early, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    tt.return
  ^bb2:  // pred: ^bb0
"""
BY_ARGUMENT = "sgt, %k, %limit"
DATA = "    %few = tt.load %p : !tt.ptr<i32>\n"


def with_return(condition: str, body: str = BODY, before: str = "") -> str:
    return HEAD + before + BRANCH.replace("CONDITION", condition) + body


def by_data(body: str = BODY) -> str:
    text = with_return("sgt, %few, %limit", body, DATA)
    return text.replace("ring_gemm(", "ring_gemm(%p: !tt.ptr<i32>, ", 1)


@pytest.mark.parametrize("text", [with_return(BY_ARGUMENT), by_data()], ids=["argument", "data"])
def test_a_kernel_that_returns_early_is_verified_for_any_number(text):
    finding = verified(text)
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert {values for _, values in finding.coverage.parameters} == {None}
    assert not [item for item in finding.diagnostics if item.code == "TTN215"]
    said = ("where the condition in line", "is what line")
    assert any(text in note for note in finding.notes for text in said)


@pytest.mark.parametrize("make", [by_data, lambda body: with_return(BY_ARGUMENT, body)])
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [(", 24576,", ", 12288,", "TTN207"), (", 1, %true :", ", 2, %true :", "TTN206")],
)
def test_faults_behind_the_return_are_refuted(make, old, new, code):
    assert old in BODY
    assert code_of(verified(make(BODY.replace(old, new, 1)))) == code


MEETING = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @ways(%n: i32, %p: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %t = arith.constant dense<0.0> : tensor<64x64xf16, #b>
    %a = ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>
    %first = ttg.memdesc_index %a[%zero] : TWO -> ONE
    ttg.local_store %t, %first : tensor<64x64xf16, #b> -> ONE
    %c = arith.cmpi slt, %n, %two : i32
    cf.cond_br %c, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    cf.br ^bb3(%zero : i32)
  ^bb2:  // pred: ^bb0
    cf.br ^bb3(STAGE : i32)
  ^bb3(%stage: i32):  // 2 preds: ^bb1, ^bb2
    %view = ttg.memdesc_index %a[%stage] : TWO -> ONE
    %v = ttg.local_load %view : ONE -> tensor<64x64xf16, #b>
    tt.return
  }
}
""".replace("TWO", "!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>").replace(
    "ONE", "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
)


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [("%zero", Verdict.VERIFIED), ("%one", Verdict.UNDECIDED), ("%two", Verdict.REFUTED)],
)
def test_values_that_ways_bring_to_a_block(stage, verdict):
    """Stage 1 has never been written, and stage 2 is not there."""
    assert verified(MEETING.replace("STAGE", stage)).verdict is verdict


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cf.br ^bb3(%zero : i32)", "cf.br ^bb0x(%zero : i32)", "no block is called ^bb0x"),
        ("cf.br ^bb3(%zero : i32)", "cf.br ^bb3", "another number of values"),
        ("cf.br ^bb3(STAGE : i32)", "cf.br ^bb2", "loops that are no `scf.for`"),
        ("cf.br ^bb3(STAGE : i32)", "cf.switch %n : i32, [default: ^bb3(%zero : i32)]",
         "a jump of this kind"),
    ],
)  # fmt: skip
def test_other_jumps_are_refused_with_their_place(old, new, said):
    text = MEETING.replace(old, new).replace("STAGE", "%zero")
    module, errors = parse_ttgir(Source("k.ttgir", text))
    assert module is None
    (error,) = errors
    assert said in error.headline
    assert error.span is not None and "cf." in text.split("\n")[error.span.start_line - 1]


LOADED = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @loaded(%p: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t = arith.constant dense<0.0> : tensor<64x64xf16, #b>
    %a = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %n = tt.load %p : !tt.ptr<i32>
    scf.for %i = %zero to %n step %one  : i32 {
      BODY
    }
    tt.return
  }
}
"""
STORE = (
    "ttg.local_store %t, %a : tensor<64x64xf16, #b> -> "
    "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
)
COPY = (
    "ttng.async_tma_copy_local_to_global %d[%zero, %i] %a : !tt.tensordesc<64x64xf16, #shared>, "
    "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
)
WAIT = "ttng.async_tma_store_wait {pendings = 0 : i32}"


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [([STORE, COPY, WAIT], Verdict.VERIFIED), ([STORE, COPY], Verdict.REFUTED)],
)
def test_a_loop_that_ends_at_a_number_from_memory(lines, verdict):
    text = LOADED.replace("BODY", "\n      ".join(lines))
    text = text.replace("(%p", "(%d: !tt.tensordesc<64x64xf16, #shared>, %p")
    finding = verified(text)
    assert finding.verdict is verdict, finding.diagnostics
    if verdict is Verdict.VERIFIED:
        assert finding.coverage.parameters == (("n", None),)
        assert any(note.startswith("n is what line") for note in finding.notes)


def test_a_number_that_each_trip_loads_is_not_one_number():
    """An inner loop that ends at it may have another number of trips each time."""
    inner = f"scf.for %j = %zero to %m step %one  : i32 {{\n{STORE}\n{COPY}\n{WAIT}\n}}"
    text = LOADED.replace("BODY", f"%m = tt.load %p : !tt.ptr<i32>\n{inner}")
    text = text.replace("(%p", "(%d: !tt.tensordesc<64x64xf16, #shared>, %p")
    finding = verified(text)
    assert finding.verdict is Verdict.REFUSED
    assert "the bounds of a loop are not known" in finding.diagnostics[0].headline
