"""Which instructions LLVM emits for each operation, order and scope: one table for each target.

Source: LLVM's AMDGPU memory model (code sequences of gfx90a and gfx942) and what clang 22 emits for
LLVM IR, outside of threadgroup split mode, where a work-group runs on one CU and has LDS; a test
compiles every row and compares. gfx950 has the sequences of gfx942. A `CodeSequence` is what stands
before the access, the cache bits of the access, and what stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.litmus.language.ast import Scope, Semantics

TARGETS = ("gfx90a", "gfx942", "gfx950")
_LDS_WAIT = ("s_waitcnt lgkmcnt(0)",)
_ALL_WAIT = ("s_waitcnt vmcnt(0) lgkmcnt(0)",)
_SCOPES = (Scope.WAVEFRONT, Scope.CTA, Scope.GPU, Scope.SYS)


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """What one target does at one scope for accesses of global memory and for fences."""

    load_bits: str
    store_bits: str
    atomic_bits: str
    release: tuple[str, ...]  # before a releasing store or atomic, and of a releasing fence
    acquire: tuple[str, ...]  # behind an acquiring load or atomic
    single: tuple[str, ...]  # before a seq_cst load
    fence_acquire: tuple[str, ...]


_NARROW = ScopeRow("", "", "", (), (), (), ())
_GROUP = ScopeRow("", "", "", _LDS_WAIT, (), _LDS_WAIT, _LDS_WAIT)
_GFX90A_INVALIDATE = {
    Scope.GPU: ("buffer_wbinvl1_vol",),
    Scope.SYS: ("buffer_invl2", "buffer_wbinvl1_vol"),
}
_GFX942_BITS = {Scope.GPU: "sc1", Scope.SYS: "sc0 sc1"}


def _gfx90a(scope: Scope) -> ScopeRow:
    invalidate = _GFX90A_INVALIDATE[scope]
    write_back = ("buffer_wbl2",) if scope is Scope.SYS else ()
    return ScopeRow(
        "glc", "", "", (*write_back, *_ALL_WAIT), ("s_waitcnt vmcnt(0)", *invalidate), _ALL_WAIT,
        (*_ALL_WAIT, *invalidate),
    )  # fmt: skip


def _gfx942(scope: Scope) -> ScopeRow:
    bits = _GFX942_BITS[scope]
    invalidate = f"buffer_inv {bits}"
    return ScopeRow(
        bits, bits, "sc1" if scope is Scope.SYS else "", (f"buffer_wbl2 {bits}", *_ALL_WAIT),
        ("s_waitcnt vmcnt(0)", invalidate), _ALL_WAIT, (*_ALL_WAIT, invalidate),
    )  # fmt: skip


_MI300 = {
    Scope.WAVEFRONT: _NARROW,
    Scope.CTA: replace(_GROUP, load_bits="sc0", store_bits="sc0"),
    Scope.GPU: _gfx942(Scope.GPU),
    Scope.SYS: _gfx942(Scope.SYS),
}
SEQUENCES: dict[str, dict[Scope, ScopeRow]] = {
    "gfx90a": {
        Scope.WAVEFRONT: _NARROW,
        Scope.CTA: _GROUP,
        Scope.GPU: _gfx90a(Scope.GPU),
        Scope.SYS: _gfx90a(Scope.SYS),
    },
    "gfx942": _MI300,
    "gfx950": _MI300,
}


@dataclass(frozen=True, slots=True)
class CodeSequence:
    """Instructions before an access, its cache bits, instructions behind it."""

    before: tuple[str, ...] = ()
    bits: str = ""
    behind: tuple[str, ...] = ()


def access_sequence(
    target: str, kind: str, order: Semantics, scope: Scope | None, lds: bool
) -> CodeSequence:
    """Of a `load`, `store` or `atomic`; weak accesses have no scope and no sequence."""
    if order is Semantics.WEAK or scope is None:
        return CodeSequence()
    acquires = order.acquires and kind != "store"
    releases = order.releases and kind != "load"
    single = order is Semantics.SC and kind == "load"
    if lds:
        wait = _LDS_WAIT if scope is not Scope.WAVEFRONT else ()
        return CodeSequence(wait if releases or single else (), "", wait if acquires else ())
    row = SEQUENCES[target][scope]
    bits = {"load": row.load_bits, "store": row.store_bits, "atomic": row.atomic_bits}[kind]
    before = row.release if releases else (row.single if single else ())
    return CodeSequence(before, bits, row.acquire if acquires else ())


def fence_sequence(target: str, order: Semantics, scope: Scope) -> tuple[str, ...]:
    """Of a fence; one that releases and acquires waits once."""
    row = SEQUENCES[target][scope]
    release = row.release if order.releases else ()
    acquire = row.fence_acquire if order.acquires else ()
    if release and acquire and release[-1] == acquire[0]:
        return release + acquire[1:]
    return release + acquire
