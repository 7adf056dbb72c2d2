"""isspacep of shared memory: the window of the CTA, and that of its cluster (PTX, "isspacep")."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import STORE, launch_of, module_of, results

BODY = """
.shared .align 8 .b8 mine[8];
.local .align 8 .b8 own[8];
mov.u64 %d2, mine;
cvta.shared.u64 %d3, %d2;
mov.u32 %r1, %cluster_ctarank;
xor.b32 %r2, %r1, {away};
mapa.u64 %d4, %d3, %r2;
mov.u64 %d5, own;
cvta.local.u64 %d5, %d5;
ld.param.u64 %d6, [out];
isspacep.{word} %p1, {address};
selp.u32 %r0, 1, 0, %p1;
"""
ADDRESSES = {  # of which window of shared memory
    ("%d3", 0): ("shared", "shared::cta", "shared::cluster"),
    ("%d4", 0): ("shared", "shared::cta", "shared::cluster"),
    ("%d4", 1): ("shared::cluster",),
    ("%d5", 0): ("local",),
    ("%d6", 0): ("global",),
}
WORDS = ("shared", "shared::cta", "shared::cluster", "local", "global")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("word", WORDS)
def test_memory_of_a_peer_is_in_the_window_of_the_cluster_alone(address, word):
    register, away = address
    body = BODY.format(away=away, word=word, address=register) + STORE
    found = results(module_of(body), launch_of(grid=2, cluster=2), 1)
    assert found == [int(word in ADDRESSES[address])]


@pytest.mark.parametrize("word", WORDS)
def test_without_a_cluster_there_is_one_window(word):
    body = BODY.format(away=0, word=word, address="%d3") + STORE
    assert results(module_of(body), launch_of(), 1) == [int(word.startswith("shared"))]
