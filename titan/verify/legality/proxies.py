"""Proxies and their fences: which of them the target has.

The memory model of PTX knows a fence for every proxy; the instruction set has one for the async and
the tensormap proxy and for virtual aliases only. What was written by another path and is then read
through the constant, texture or surface proxy is coherent again in the next kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.sync.parts import GRID
from titan.sync.program import CACHED, CACHED_FENCES, Access, Fence
from titan.verify.legality.case import Case
from titan.verify.legality.rule import rule


@rule("TTN426", "proxy_fences")
def fence_is_an_instruction(case: Case) -> Iterator[Diagnostic]:
    """A proxy fence is an instruction of the target; there is none of the cached proxies."""
    known = case.limits.table("proxy_fences")
    for _, item in case.operations if known else ():
        if not isinstance(item, Fence) or known.get(item.kind.value, 0) or item.label == GRID:
            continue
        helps: tuple[str, ...] = ()
        if item.kind in CACHED_FENCES:
            helps = ("read through the generic proxy (ld.global), or in a later kernel",)
        headline = f"{case.kernel.target} has no instruction for the fence {item.kind.value}"
        yield case.fault("TTN426", headline, item.span, source="proxy_fences", helps=helps)


@rule("TTN426", "proxies")
def proxy_is_of_the_target(case: Case) -> Iterator[Diagnostic]:
    """An access through the constant, texture or surface proxy needs a target that has it."""
    known = case.limits.table("proxies")
    for _, item in case.operations if known else ():
        for effect in item.effects if isinstance(item, Access) else ():
            if effect.proxy in CACHED and not known.get(effect.proxy.value, 0):
                headline = f"{case.kernel.target} has no {effect.proxy.value} proxy"
                yield case.fault("TTN426", headline, item.span, source="proxies")
