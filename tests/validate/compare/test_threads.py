"""Single threads out of runs of the machine of warps: loops, lanes, waits, and what is refused."""

from __future__ import annotations

import pytest

from titan.isa.simt.launch import Launch, LaunchParameter
from titan.validate.compare.threads import (
    CTA_SHIFT,
    Ran,
    ThreadEvent,
    UnsupportedPtx,
    parse_kernel,
    run_cluster,
)

RESERVED = 1024  # bytes of shared memory before those of the kernel
HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n.shared .align 16 .b8 memory[64];\n"


def kernel(body: str):
    text = f"{HEAD}.visible .entry k(.param .u32 n)\n.maxntid 64, 1, 1\n{{\n{body}\n}}\n"
    return parse_kernel(text)


def ran(body: str, n: int = 0, cta: int = 0, cluster: int = 1, grid: int = 4) -> Ran:
    parameters = (LaunchParameter(n.to_bytes(4, "little")),)
    launch = Launch("k", (grid, 1, 1), (64, 1, 1), (cluster, 1, 1), 0, parameters)
    return run_cluster(kernel(body), launch, cta, (0, 1, 32, 33))


def events(body: str, thread: int = 0, **launch: int) -> list[ThreadEvent]:
    return ran(body, **launch).events[(0, thread)]


def test_a_loop_runs_as_often_as_its_bound_says():
    body = """
    .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, 0;
    $L__TOP:
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra $L__END;
    bar.sync 1, 64;
    add.s32 %r2, %r2, 1;
    bra.uni $L__TOP;
    $L__END:
    ret;
    """
    for n in (0, 1, 5):
        found = events(body, n=n)
        assert [(event.kind, event.values) for event in found] == [("sync", (1, 64))] * n


WAIT = """
    .reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %d<2>;
    mov.u32 %r1, memory;
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra $L__MET;
    mbarrier.init.shared.b64 [%r1+8], 1;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1+8];
    $L__MET:
    bar.sync 0;
    $L__AGAIN:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1+8], {parity};
    {again}
    bar.sync 0;
    ret;
"""


def test_a_wait_is_one_event_however_often_it_is_tested():
    found = events(WAIT.format(parity=0, again="@!%p1 bra $L__AGAIN;"), thread=33)
    place = RESERVED + 8
    assert [(e.kind, e.values) for e in found] == [
        ("sync", (0, 64)), ("wait", (place, 0)), ("sync", (0, 64)),
    ]  # fmt: skip
    first = events(WAIT.format(parity=0, again="@!%p1 bra $L__AGAIN;"))
    assert [(e.kind, e.values) for e in first[:2]] == [
        ("init", (place, 1)), ("arrive", (place, 1)),
    ]  # fmt: skip


def test_a_test_that_is_not_repeated_is_no_wait():
    found = events(WAIT.format(parity=0, again=""), thread=1)
    assert [e.kind for e in found] == ["sync", "test without waiting", "sync"]


def test_threads_that_hang_are_told_with_what_they_wait_for():
    found = ran(WAIT.format(parity=1, again="@!%p1 bra $L__AGAIN;"))
    assert any("hangs" in text for text in found.faults)
    assert not found.ended
    assert found.events[(0, 32)][-1].kind == "wait"
    assert found.events[(0, 32)][-1].values == (RESERVED + 8, 1)


def test_lanes_and_blocks_are_told_apart():
    body = """
    .reg .b32 %r<4>; .reg .pred %p<3>;
    mov.u32 %r1, %ctaid.x;
    setp.ne.s32 %p1, %r1, 2;
    @%p1 bra $L__END;
    elect.sync _|%p2, 0xffffffff;
    @!%p2 bra $L__END;
    cp.async.bulk.commit_group;
    $L__END:
    ret;
    """
    assert [event.kind for event in events(body, thread=32, cta=2)] == ["bulk_commit"]
    assert events(body, thread=33, cta=2) == events(body, thread=32, cta=1) == []


def test_other_ctas_of_a_cluster_have_their_rank_in_an_address():
    body = """
    .reg .b32 %r<4>;
    mov.u32 %r1, memory;
    mapa.shared::cluster.u32 %r2, %r1, 1;
    mbarrier.init.shared.b64 [%r1], 128;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
    """
    found = ran(body, cluster=2)
    places = {rank: found.events[(rank, 0)][-3].values[0] for rank in (0, 1)}
    assert places == {0: RESERVED | 2 << CTA_SHIFT, 1: RESERVED}
    assert "other" not in {event.kind for event in found.events[(0, 0)]}


@pytest.mark.parametrize("inside", ["bar.sync 1, 64;", "add.s32 %r1, %r1, 1;"])
def test_a_branch_on_data_is_refused(inside):
    body = f"""
    .reg .f32 %f<2>; .reg .pred %p<2>; .reg .b64 %rd<2>; .reg .b32 %r<2>;
    mov.u64 %rd1, 4096;
    ld.global.f32 %f1, [%rd1];
    setp.lt.f32 %p1, %f1, 0f00000000;
    @%p1 bra $L__END;
    {inside}
    $L__END:
    ret;
    """
    with pytest.raises(UnsupportedPtx, match=r"line .*control depends on data"):
        events(body)


def test_an_endless_loop_is_a_fault(monkeypatch):
    monkeypatch.setattr("titan.validate.compare.threads.STEPS_MAX", 1000)
    found = ran("$L__TOP:\nbra $L__TOP;")
    assert found.faults == ["the kernel has not ended after 1000 warp instructions"]
    assert found.events == {}


@pytest.mark.parametrize(
    "text", ["", ".entry a() { ret; } .entry b() { ret; }", ".entry a() { ret", "nonsense"]
)
def test_texts_without_one_whole_kernel_are_refused(text):
    with pytest.raises(UnsupportedPtx):
        parse_kernel(HEAD + text)


def test_accesses_of_shared_memory_are_noted_with_their_bytes():
    body = """
    .reg .b32 %r<5>;
    mov.u32 %r1, memory;
    mov.u32 %r4, 7;
    st.shared.u32 [%r1+16], %r4;
    ld.shared.v2.b32 {%r2, %r3}, [%r1+16];
    """
    place = RESERVED + 16
    found = [(event.kind, event.values, event.spans) for event in events(body)]
    assert found == [
        ("write", (place,), (((place, place + 4),),)),
        ("read", (place,), (((place, place + 8),),)),
    ]


def test_what_the_machine_sees_go_wrong_is_told():
    body = """
    .reg .b32 %r<5>;
    mov.u32 %r1, memory;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];
    ret;
    """
    assert any("not initialised" in text for text in ran(body).faults)
