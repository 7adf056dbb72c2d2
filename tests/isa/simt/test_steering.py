"""Which reads may steer: any of their bytes is known, and a thread may change it."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import OUT, launch_of, module_of, of, ran
from titan.isa.simt import events as ev

# What a load gives, and the bytes of it.
LOADS = {
    "ld.global.u32 %r10": 4,
    "ld.global.u64 %d10": 8,
    "ld.global.v2.u32 {%r10, %r11}": 8,
    "ld.global.v4.u32 {%r10, %r11, %r12, %r13}": 16,
    "ld.global.v2.u64 {%d10, %d11}": 16,
    "ld.relaxed.gpu.global.v4.u32 {%r10, %r11, %r12, %r13}": 16,
    "ld.volatile.global.v4.u32 {%r10, %r11, %r12, %r13}": 16,
}
KNOWN = {"all": (0, 16), "the first word": (0, 4), "the last word": (-4, 4), "nothing": (0, 0)}


@pytest.mark.parametrize("start", [OUT, OUT + 4096 - 16], ids=["start", "end"])
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("load", LOADS)
def test_a_read_of_some_known_bytes_may_steer(load, known, start):
    count = LOADS[load]
    at, size = KNOWN[known]
    memory = {start + at % count: bytes(range(200, 200 + min(size, count)))} if size else {}
    more = f"ld.param.u64 %d1, [out]; {load}, [%d1+{start - OUT}]; ret;"
    found = ran(module_of(more), launch_of(memory=memory))
    (access,) = of(found, ev.AccessEvent)
    assert access.known == bool(size)
    assert len(found.confluence.steering) == bool(size)
