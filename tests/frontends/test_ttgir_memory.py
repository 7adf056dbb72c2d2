"""TTGIR: allocations that Triton may lay on memory that is no longer used."""

from __future__ import annotations

import re

import pytest

from tests.frontends.ttgir_samples import changed, code_of, sample, verified, without
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.lifetimes import ended_before
from titan.frontends.ttgir.parse import parse_ttgir

PIPELINED = sample("pipelined_gemm_sm100")
IN_LOOP = sample("ticket_loop_sm90")
BACK = "ttg.local_dealloc %1 : !ttg.memdesc<128x128xf16, #shared, #smem>"
TYPES = "(tensor<128x128xf16, #linear>) -> !ttg.memdesc<128x128xf16, #shared, #smem>"
ANEW = f"%again = ttg.local_alloc %0 : {TYPES}"
WAIT = "ttng.async_tma_store_wait {pendings = 0 : i32}"


@pytest.mark.parametrize("number", range(5))
def test_a_barrier_that_lives_where_a_tile_may_be_is_refuted(number):
    """The tile that is stored is allocated behind the barriers' end."""
    assert verified(PIPELINED).verdict is Verdict.VERIFIED
    assert code_of(verified(without("ttng.inval_barrier", PIPELINED, number))) == "TTN209"


def test_a_barrier_that_lives_where_nothing_comes_is_none_of_it():
    """No memory is allocated behind it: PTX asks for nothing at the end of a CTA."""
    last = "\n".join(
        line
        for line in PIPELINED.split("\n")
        if not re.search(r"local_alloc %0|_local_to_global|_store_wait", line)
    )
    assert verified(without("ttng.inval_barrier", last)).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("number", range(3))
def test_a_barrier_that_lives_into_the_next_trip_is_refuted(number):
    """In a loop, what stands before the end of the memory comes behind it, too."""
    assert verified(IN_LOOP).verdict is Verdict.VERIFIED
    assert code_of(verified(without("ttng.inval_barrier", IN_LOOP, number))) == "TTN209"


def test_a_barrier_ends_with_its_last_use():
    """The one that the queries are waited for at has no `ttg.local_dealloc`, and tiles follow."""
    text = sample("attention_sm100_specialised")
    assert code_of(verified(without("ttng.inval_barrier %queries_3", text))) == "TTN209"


@pytest.mark.parametrize("handed_back", [False, True])
@pytest.mark.parametrize("waited", [False, True])
def test_a_tile_ends_when_its_store_has_read_it(waited, handed_back):
    """Memory is given back by no operation: `ttg.local_dealloc` is the last use, or the store."""
    anew = [BACK, ANEW] if handed_back else [ANEW]
    both = [WAIT, *anew] if waited else [*anew, WAIT]
    finding = verified(changed(re.escape(WAIT), "\n".join(both), PIPELINED))
    if waited:
        assert finding.verdict is Verdict.VERIFIED
    else:
        assert code_of(finding) == "TTN202"


def test_a_tile_is_used_until_what_is_laid_on_it_is_written():
    """Products are waited for behind the `ttg.local_dealloc` of a factor, before the next tile."""
    lines = PIPELINED.split("\n")
    (back,) = [at for at, line in enumerate(lines) if "local_dealloc %total_7 " in line]
    (last,) = [at for at, line in enumerate(lines) if "scf.if %total_12 {" in line]
    lines.insert(last, lines.pop(back))
    assert verified("\n".join(lines)).verdict is Verdict.VERIFIED


def test_an_allocation_without_a_tile_is_written_later():
    """It may be made before the store has read what it is laid on."""
    empty = "%again = ttg.local_alloc : () -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>"
    text = changed(re.escape(WAIT), f"{empty}\n{WAIT}", PIPELINED)
    assert verified(text).verdict is Verdict.VERIFIED


def test_loops_swap_what_they_carry_and_it_lives_on():
    """What a loop hands out may be each that it was given, and none has ended."""
    swapped = """
    %tile = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %tile, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %out = scf.for %i = %c0_i32 to %c1_i32 step %c1_i32 iter_args(%in = %tile) -> (X) : i32 {
      scf.yield %in : X
    }
    %more = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %out : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    """.replace("X", "!ttg.memdesc<1xi64, #shared1, #smem, mutable>")
    text = changed("( +tt.return)", f"{swapped}\\1", PIPELINED)
    module, _ = parse_ttgir(Source("k.ttgir", text))
    assert module is not None
    (function,) = module.functions
    ended = {span.start_line: made for span, made in ended_before(function.body).items()}
    lines = text.split("\n")
    (tile,) = [at for at, line in enumerate(lines, 1) if "%tile = " in line]
    (more,) = [at for at, line in enumerate(lines, 1) if "%more = " in line]
    assert ended[tile] and tile not in [span.start_line for span in ended[more]]


def test_fences_that_lowering_adds_are_not_called_redundant():
    """They are assumed behind a write of the same memory, and stand in no line of the text."""
    assert verified(IN_LOOP).diagnostics == ()
    assert verified(PIPELINED).diagnostics == ()
