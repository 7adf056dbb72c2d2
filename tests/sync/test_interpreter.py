"""The definition of the semantics, fault kind by fault kind, each beside its correct neighbour.

Every program here is small enough to be read; the search is exhaustive over all interleavings.
"""

import dataclasses
from random import Random

import pytest

from titan.engines.explore.reference import explore_reference
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant, parse_expression
from titan.sync.fault import Actor, FaultKind, Step
from titan.sync.interpreter import Interpreter


def constant(value):
    return parse_expression(value) if isinstance(value, str) else Constant(value)


def at(name, index=0):
    return ir.Reference(name, constant(index))


def read(buffer, tile=None, stage=0, proxy=ir.Proxy.GENERIC):
    tile = None if tile is None else constant(tile)
    return ir.Effect(buffer, constant(stage), False, tile, None, proxy)


def write(buffer, tile, stage=0, proxy=ir.Proxy.GENERIC):
    return ir.Effect(buffer, constant(stage), True, constant(tile), None, proxy)


def load(*effects):
    return ir.Access(effects)


def copy(buffer, tile, barrier, stage=0, index=0, size=16, chunks=1):
    """A bulk load: an asynchronous write that completes on a barrier."""
    completion = ir.Completion(at(barrier, index), constant(size))
    effects = (write(buffer, tile, stage, ir.Proxy.ASYNC),)
    return ir.Asynchronous(effects, None, (completion,), chunks)


def expect(barrier, size=16, index=0):
    return ir.Arrive(at(barrier, index), transaction=constant(size))


def wait(barrier, parity, index=0, phase=None):
    return ir.Wait(at(barrier, index), constant(parity), None if phase is None else constant(phase))


def program(roles, **declarations):
    made = tuple(
        ir.Role(name, tuple(body), threads=1) if not isinstance(body, ir.Role) else body
        for name, body in roles.items()
    )
    declarations.setdefault("buffers", (ir.Buffer("S", stages=2),))
    return ir.SyncProgram("test", "sm_90a", made, **declarations)


def outcome(roles, **declarations):
    """VERIFIED, or the kind of the first fault of a shortest interleaving."""
    result = explore_reference(program(roles, **declarations))
    if result.verdict is Verdict.REFUTED:
        return result.trace.fault.kind
    return result.verdict


FULL = (ir.Barrier("F", 1),)
RING = (ir.Barrier("F", 1), ir.Barrier("E", 1))
ASYNC_FENCE = ir.Fence(ir.FenceKind.ASYNC)


def test_transfer_observed_through_its_barrier():
    producer = [expect("F"), copy("S", 1, "F")]
    assert outcome({"p": producer, "c": [wait("F", 0), load(read("S", 1))]}, barriers=FULL) == (
        Verdict.VERIFIED
    )


def test_read_without_the_wait_meets_a_write_in_flight():
    producer = [expect("F"), copy("S", 1, "F"), wait("F", 0)]
    found = outcome({"p": producer, "c": [load(read("S", 1))]}, barriers=FULL)
    assert found in (FaultKind.READ_BEFORE_ARRIVAL, FaultKind.STALE_READ)


def test_a_phase_needs_its_arrivals_and_its_bytes():
    silent = [ir.ExpectTransaction(at("F"), constant(16)), copy("S", 1, "F")]
    assert outcome({"p": silent, "c": [wait("F", 0)]}, barriers=FULL) == FaultKind.DEADLOCK
    fewer = [expect("F", 32), copy("S", 1, "F")]
    assert outcome({"p": fewer, "c": [wait("F", 0)]}, barriers=FULL) == FaultKind.DEADLOCK
    more = [expect("F", 8), copy("S", 1, "F"), wait("F", 0)]
    assert outcome({"p": more}, barriers=FULL) == FaultKind.TRANSACTION_MISMATCH


def test_bytes_in_instalments_complete_only_together():
    producer = [expect("F"), copy("S", 1, "F", chunks=3)]
    consumer = [wait("F", 0), load(read("S", 1))]
    assert outcome({"p": producer, "c": consumer}, barriers=FULL) == Verdict.VERIFIED


def test_transaction_count_may_be_negative_for_a_while():
    # PTX M3, M9: the copy may start before its expect_tx while an arrival is still pending.
    producer = [copy("S", 1, "F"), expect("F")]
    consumer = [wait("F", 0), load(read("S", 1))]
    assert outcome({"p": producer, "c": consumer}, barriers=FULL) == Verdict.VERIFIED


def test_over_arrival():
    again = [ir.Arrive(at("F")), wait("F", 0), ir.Arrive(at("F"))]
    assert outcome({"p": again}, barriers=FULL) == Verdict.VERIFIED
    two = {"p": [ir.Arrive(at("F"), count=constant(2))]}
    assert outcome(two, barriers=FULL) == FaultKind.OVER_ARRIVAL


def test_parity_cannot_tell_a_phase_from_the_next_but_one():
    arrivals = [ir.Arrive(at("F")), wait("F", 0), ir.Arrive(at("F"))]
    assert outcome({"p": arrivals, "c": [wait("F", 0)]}, barriers=FULL) == FaultKind.DEADLOCK
    named = [wait("F", 0, phase=0)]
    assert outcome({"p": arrivals, "c": named}, barriers=FULL) == FaultKind.LAPPED_WAIT


@pytest.mark.parametrize(
    ("between", "other", "expected"),
    [
        ([], [], FaultKind.UNOBSERVED_PHASE),
        ([], [wait("F", 0, phase=0)], FaultKind.UNOBSERVED_PHASE),
        ([wait("F", 0)], [], Verdict.VERIFIED),
        ([wait("E", 0)], [wait("F", 0), ir.Arrive(at("E"))], Verdict.VERIFIED),
        ([wait("E", 0)], [ir.Arrive(at("E")), wait("F", 0)], FaultKind.UNOBSERVED_PHASE),
        ([ir.TokenWait(at("F"))], [], Verdict.VERIFIED),
    ],
)
def test_somebody_sees_each_phase_before_the_next_arrival(between, other, expected):
    """PTX "Phase of the mbarrier object": a wait has returned true in each phase."""
    first, second = ir.Arrive(at("F"), token=True), ir.Arrive(at("F"))
    roles = {"p": [first, *between, second], "c": other}
    assert outcome(roles, barriers=RING) == expected


@pytest.mark.parametrize("waits", [True, False])
def test_the_arrival_of_an_engine_needs_a_wait_before_it(waits):
    queue = ir.Queue("tcgen05", grouped=False)
    commit, end = ir.QueueArrive("tcgen05", at("F")), ir.QueueWait("tcgen05")
    body = [commit, *([wait("F", 0)] if waits else []), commit, end]
    expected = Verdict.VERIFIED if waits else FaultKind.UNOBSERVED_PHASE
    assert outcome({"p": body}, barriers=FULL, queues=(queue,)) == expected


def test_a_state_wait_is_not_lapped():
    body = [ir.Arrive(at("F"), token=True), ir.TokenWait(at("F"))]
    other = [ir.Arrive(at("F")), wait("F", 0), ir.Arrive(at("F"))]
    two = (ir.Barrier("F", 2),)
    assert outcome({"a": body, "b": other[:1]}, barriers=two) == Verdict.VERIFIED


def test_a_state_is_of_this_phase_or_the_last():
    """PTX, test_wait: a state of the current phase or of the one immediately before it."""
    taken, waited = ir.Arrive(at("F"), token=True), ir.TokenWait(at("F"))
    plain, one = ir.Arrive(at("F")), (ir.Barrier("F", 1),)
    kept = {"a": [taken, wait("F", 0, phase=0), plain, waited]}
    assert outcome(kept, barriers=one) == FaultKind.NAMED_BARRIER_MISUSE
    again = {"a": [taken, wait("F", 0, phase=0), taken, waited]}
    assert outcome(again, barriers=one) == Verdict.VERIFIED
    # Others may complete the next phase before the wait passes, or only after it.
    free = {"a": [taken, waited], "b": [wait("F", 0, phase=0), plain]}
    assert outcome(free, barriers=one) == FaultKind.NAMED_BARRIER_MISUSE
    held = {"a": [taken, waited, ir.Arrive(at("E"))], "b": [wait("E", 0), plain]}
    assert outcome(held, barriers=(*one, ir.Barrier("E", 1))) == Verdict.VERIFIED


def test_dropped_arrivals_lower_later_phases():
    leaver = [ir.Arrive(at("F"), drop=True)]
    stayer = [ir.Arrive(at("F")), wait("F", 0), ir.Arrive(at("F")), wait("F", 1)]
    two = (ir.Barrier("F", 2),)
    assert outcome({"a": leaver, "b": stayer}, barriers=two) == Verdict.VERIFIED


def test_stale_tile():
    producer = [expect("F"), copy("S", 1, "F")]
    consumer = [wait("F", 0), load(read("S", 2))]
    assert outcome({"p": producer, "c": consumer}, barriers=FULL) == FaultKind.STALE_READ


def test_data_race_of_two_synchronous_accesses():
    roles = {"a": [load(write("S", 1))], "b": [load(read("S"))]}
    assert outcome(roles) == FaultKind.DATA_RACE
    readers = {"a": [load(read("S"))], "b": [load(read("S"))]}
    assert outcome(readers) == Verdict.VERIFIED
    apart = {"a": [load(write("S", 1))], "b": [load(read("S", stage=1))]}
    assert outcome(apart) == Verdict.VERIFIED


def test_aliasing_buffers_share_their_cells():
    buffers = (ir.Buffer("A", stages=2, storage="pool"), ir.Buffer("B", storage="pool", offset=1))
    clash = {"a": [load(write("A", 1, stage=1))], "b": [load(write("B", 2))]}
    assert outcome(clash, buffers=buffers) == FaultKind.DATA_RACE
    apart = {"a": [load(write("A", 1, stage=0))], "b": [load(write("B", 2))]}
    assert outcome(apart, buffers=buffers) == Verdict.VERIFIED


WGMMA = ir.Queue("wgmma", pipelined=True)


def mma(tile, stage=0):
    return ir.Asynchronous((read("S", tile, stage, ir.Proxy.ASYNC),), "wgmma")


@pytest.mark.parametrize(("pending", "expected"), [(0, Verdict.VERIFIED), (1, "TTN202")])
def test_release_before_the_tensor_core_has_read(pending, expected):
    producer = [expect("F"), copy("S", 1, "F"), wait("E", 0), expect("F"), copy("S", 2, "F")]
    consumer = [
        wait("F", 0), mma(1), ir.Commit("wgmma"), ir.QueueWait("wgmma", constant(pending)),
        ir.Arrive(at("E")), wait("F", 1), mma(2), ir.Commit("wgmma"), ir.QueueWait("wgmma"),
    ]  # fmt: skip
    found = outcome({"p": producer, "c": consumer}, barriers=RING, queues=(WGMMA,))
    assert found == expected


def test_empty_groups_count_for_a_wait_by_number():
    # cp.async with a predicated tail: the empty commit makes wait_group(1) cover the first group.
    queue = ir.Queue("cp")
    fill = ir.Asynchronous((write("S", 1),), "cp")
    body = [fill, ir.Commit("cp"), ir.Commit("cp"), ir.QueueWait("cp", constant(1))]
    good = {"a": [*body, load(read("S", 1))]}
    assert outcome(good, queues=(queue,)) == Verdict.VERIFIED
    del body[2]
    bad = {"a": [*body, load(read("S", 1))]}
    assert outcome(bad, queues=(queue,)) == FaultKind.READ_BEFORE_ARRIVAL


def test_an_unordered_counter_says_nothing_until_it_is_zero():
    queue = ir.Queue("lgkmcnt", grouped=False, ordered=False)
    issue = [ir.Asynchronous((write("S", 1, stage),), "lgkmcnt") for stage in (0, 1)]
    tail = [ir.QueueWait("lgkmcnt")]
    for pending, expected in ((1, FaultKind.READ_BEFORE_ARRIVAL), (0, Verdict.VERIFIED)):
        body = [*issue, ir.QueueWait("lgkmcnt", constant(pending)), load(read("S", 1)), *tail]
        assert outcome({"a": body}, queues=(queue,)) == expected
    ordered = dataclasses.replace(queue, ordered=True)
    body = [*issue, ir.QueueWait("lgkmcnt", constant(1)), load(read("S", 1)), *tail]
    assert outcome({"a": body}, queues=(ordered,)) == Verdict.VERIFIED


STORE = ir.Asynchronous(
    (read("S", 1, proxy=ir.Proxy.ASYNC), write("G", 1, proxy=ir.Proxy.ASYNC)), "bulk"
)
STORE_BUFFERS = (ir.Buffer("S"), ir.Buffer("G", space=ir.Space.GLOBAL))


def test_a_read_wait_frees_the_source_and_proves_nothing_of_the_destination():
    head = [load(write("S", 1)), ASYNC_FENCE, STORE, ir.Commit("bulk")]
    reads = ir.QueueWait("bulk", until=ir.Until.READ)
    reuse = {"a": [*head, reads, load(write("S", 2)), ir.QueueWait("bulk")]}
    early = {"a": [*head, reads, load(read("G", 1))]}
    late = {"a": [*head, ir.QueueWait("bulk"), load(read("G", 1))]}
    queues = (ir.Queue("bulk"),)
    assert outcome(reuse, buffers=STORE_BUFFERS, queues=queues) == Verdict.VERIFIED
    assert outcome(early, buffers=STORE_BUFFERS, queues=queues) == FaultKind.READ_BEFORE_ARRIVAL
    assert outcome(late, buffers=STORE_BUFFERS, queues=queues) == Verdict.VERIFIED


def bar(threads=2, index=0):
    return ir.BarrierSync(at("bar", index), constant(threads))


def store_after_fence(place):
    """Two threads fill S; one stores it. The fence of the second stands before or after."""
    second = [load(write("T", 1)), ASYNC_FENCE, bar()]
    if place != "writer":
        second.remove(ASYNC_FENCE)
    both = ir.Asynchronous(
        (read("S", 1, proxy=ir.Proxy.ASYNC), read("T", 1, proxy=ir.Proxy.ASYNC)), "bulk"
    )
    first = [load(write("S", 1)), ASYNC_FENCE, bar(), both, ir.Commit("bulk"), ir.QueueWait("bulk")]
    if place == "issuer":
        first.insert(3, ASYNC_FENCE)
    return {"a": first, "b": second}


@pytest.mark.parametrize(
    ("rule", "place", "expected"),
    [
        ("writer", "writer", Verdict.VERIFIED),
        ("writer", "issuer", FaultKind.MISSING_FENCE),
        ("writer", "none", FaultKind.MISSING_FENCE),
        ("path", "writer", Verdict.VERIFIED),
        ("path", "issuer", Verdict.VERIFIED),
        ("path", "none", FaultKind.MISSING_FENCE),
    ],
)
def test_the_two_fence_rules(rule, place, expected):
    found = outcome(
        store_after_fence(place),
        buffers=(ir.Buffer("S"), ir.Buffer("T")),
        queues=(ir.Queue("bulk"),),
        named_barriers=(ir.NamedBarrier("bar"),),
        policies=ir.Policies(fence_rule=rule),
    )
    assert found == expected


@pytest.mark.parametrize("policy", [True, False])
def test_generic_read_then_asynchronous_write(policy):
    producer = [expect("F"), copy("S", 1, "F"), wait("E", 0), expect("F"), copy("S", 2, "F")]
    consumer = [wait("F", 0), load(read("S", 1)), ir.Arrive(at("E")), wait("F", 1)]
    roles = {"p": producer, "c": consumer}
    policies = ir.Policies(war_fence=policy)
    expected = FaultKind.MISSING_FENCE_WAR if policy else Verdict.VERIFIED
    assert outcome(roles, barriers=RING, policies=policies) == expected
    consumer.insert(2, ASYNC_FENCE)
    assert outcome(roles, barriers=RING, policies=policies) == Verdict.VERIFIED


def test_tensor_map_needs_release_and_acquire():
    use = ir.Asynchronous((read("S", 1, proxy=ir.Proxy.TENSORMAP),), "bulk")
    tail = [ir.Commit("bulk"), ir.QueueWait("bulk")]
    release = ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)
    acquire = ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE)
    queues = (ir.Queue("bulk"),)
    for fences, expected in (
        ([], FaultKind.MISSING_TENSORMAP_FENCE),
        ([release], FaultKind.MISSING_TENSORMAP_FENCE),
        ([acquire, release], FaultKind.MISSING_TENSORMAP_FENCE),
        ([release, acquire], Verdict.VERIFIED),
        ([ASYNC_FENCE, release, acquire], Verdict.VERIFIED),
        ([release, ASYNC_FENCE, acquire], Verdict.VERIFIED),
        ([ASYNC_FENCE, acquire], FaultKind.MISSING_TENSORMAP_FENCE),
    ):
        body = [load(write("S", 1)), *fences, use, *tail]
        assert outcome({"a": body}, queues=queues) == expected


@pytest.mark.parametrize("both", [True, False])
def test_everyone_who_wrote_the_tensor_map_releases_it(both):
    use = ir.Asynchronous((read("S", 1, proxy=ir.Proxy.TENSORMAP),), "bulk")
    release = [ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)]
    acquire = ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE)
    first = [load(write("S", 7)), *(release if both else []), bar()]
    second = [bar(), load(write("S", 1)), *release, acquire, use]
    roles = {"a": first, "b": [*second, ir.Commit("bulk"), ir.QueueWait("bulk")]}
    named = (ir.NamedBarrier("bar"),)
    expected = Verdict.VERIFIED if both else FaultKind.MISSING_TENSORMAP_FENCE
    assert outcome(roles, queues=(ir.Queue("bulk"),), named_barriers=named) == expected


def test_initialisation_is_published_by_the_fence_and_a_barrier():
    late = (ir.Barrier("F", 1, initialised=False),)
    named = (ir.NamedBarrier("bar"),)
    start = [ir.Init(at("F"), constant(1))]
    fence = [ir.Fence(ir.FenceKind.BARRIER_INIT)]
    work = [bar(), expect("F"), copy("S", 1, "F")]
    consumer = [bar(), wait("F", 0), load(read("S", 1))]
    cases = (
        (start + fence + work, consumer, Verdict.VERIFIED),
        (start + work, consumer, FaultKind.UNPUBLISHED_INIT),
        (start + fence + work[1:], consumer[1:], FaultKind.BARRIER_UNINITIALISED),
    )
    for producer, reader, expected in cases:
        found = outcome({"p": producer, "c": reader}, barriers=late, named_barriers=named)
        assert found == expected
    assumed = ir.Policies(barrier_init="assumed")
    roles = {"p": start + work, "c": consumer}
    assert outcome(roles, barriers=late, named_barriers=named, policies=assumed) == Verdict.VERIFIED


def test_life_of_a_barrier():
    late = (ir.Barrier("F", 1, initialised=False),)
    init, end = ir.Init(at("F"), constant(1)), ir.Invalidate(at("F"))
    assert outcome({"a": [init, end, init]}, barriers=late) == Verdict.VERIFIED
    assert outcome({"a": [init, init]}, barriers=late) == FaultKind.BARRIER_LIFECYCLE
    assert outcome({"a": [end]}, barriers=late) == FaultKind.BARRIER_UNINITIALISED
    used = [init, ir.Fence(ir.FenceKind.BARRIER_INIT), expect("F"), copy("S", 1, "F"), end]
    assert outcome({"a": used}, barriers=late) == FaultKind.BARRIER_LIFECYCLE


def test_named_barrier_counts_threads():
    named = (ir.NamedBarrier("bar", 2),)
    good = {"a": [bar()], "b": [bar()]}
    assert outcome(good, named_barriers=named) == Verdict.VERIFIED
    missing = {"a": [bar(3)], "b": [bar(3)]}
    assert outcome(missing, named_barriers=named) == FaultKind.DEADLOCK
    disagree = {"a": [bar(2)], "b": [bar(3)]}
    assert outcome(disagree, named_barriers=named) == FaultKind.NAMED_BARRIER_MISUSE
    arrive = ir.BarrierArrive(at("bar"), constant(2))
    again = {"a": [arrive, arrive], "b": [bar()]}
    assert outcome(again, named_barriers=named) == FaultKind.NAMED_BARRIER_MISUSE


def test_split_cluster_barrier_orders_like_a_whole_one():
    named = (ir.NamedBarrier("bar", 1, ir.Scope.CLUSTER),)
    arrive, later = ir.BarrierArrive(at("bar"), constant(2)), ir.BarrierWait(at("bar"))
    roles = {"a": [load(write("S", 1)), arrive, later], "b": [arrive, later, load(read("S", 1))]}
    assert outcome(roles, named_barriers=named) == Verdict.VERIFIED
    roles["b"] = [arrive, load(read("S", 1)), later]
    assert outcome(roles, named_barriers=named) in (FaultKind.DATA_RACE, FaultKind.STALE_READ)


def test_work_in_flight_at_exit():
    store = [load(write("S", 1)), ASYNC_FENCE, STORE, ir.Commit("bulk")]
    queues = (ir.Queue("bulk"),)
    declarations = {"buffers": STORE_BUFFERS, "queues": queues}
    assert outcome({"a": store}, **declarations) == FaultKind.LEAK_AT_EXIT
    reads = [*store, ir.QueueWait("bulk", until=ir.Until.READ)]
    assert outcome({"a": reads}, **declarations) == Verdict.VERIFIED
    allowed = ir.Policies(exit_in_flight="allow")
    assert outcome({"a": store}, policies=allowed, **declarations) == Verdict.VERIFIED


def test_arrival_at_a_cta_that_has_ended():
    barriers = (ir.Barrier("F", 1, cta=1),)
    remote = ir.Role("a", (ir.Arrive(at("F"), scope=ir.Scope.CLUSTER),), cta=0)
    gone = ir.Role("b", (), cta=1)
    stays = ir.Role("b", (wait("F", 0),), cta=1)
    assert outcome({"a": remote, "b": gone}, barriers=barriers) == FaultKind.LEAK_AT_EXIT
    assert outcome({"a": remote, "b": stays}, barriers=barriers) == Verdict.VERIFIED


def test_arrivals_that_no_wait_precedes():
    """A barrier that is only arrived at: the policy decides."""
    barriers = (ir.Barrier("F", 1),)
    twice = [ir.Arrive(at("F")), ir.Arrive(at("F"))]
    assert outcome({"a": twice}, barriers=barriers) == FaultKind.UNOBSERVED_PHASE
    allowed = ir.Policies(unobserved_phase="allow")
    assert outcome({"a": twice}, barriers=barriers, policies=allowed) == Verdict.VERIFIED


def test_memory_of_a_cta_that_has_ended():
    """Shared memory goes with its CTA; global memory, told of CTA 0, outlives it."""
    reader = ir.Role("a", (load(read("G", 0)),), cta=1)
    gone = ir.Role("b", (), cta=0)
    for space, expected in (
        (ir.Space.SHARED, FaultKind.LEAK_AT_EXIT),
        (ir.Space.GLOBAL, Verdict.VERIFIED),
    ):
        buffers = (ir.Buffer("G", initial=0, space=space),)
        assert outcome({"a": reader, "b": gone}, buffers=buffers) == expected


def test_register_pool_blocks_until_enough_is_given_back():
    def take(amount):
        return ir.PoolTake("registers", constant(amount))

    def give(amount):
        return ir.PoolGive("registers", constant(amount))

    pools = (ir.Pool("registers", 0),)
    assert outcome({"p": [give(104)], "c": [take(96)]}, pools=pools) == Verdict.VERIFIED
    assert outcome({"p": [give(104)], "c": [take(112)]}, pools=pools) == FaultKind.DEADLOCK
    assert outcome({"p": [give(-1)], "c": []}, pools=pools) == FaultKind.POOL_MISUSE


def test_tensor_core_pipe_orders_its_own_accumulator():
    queue = ir.Queue("tcgen05", grouped=False, pipelined=True)
    step = [
        ir.Asynchronous(
            (dataclasses.replace(write("S", tile + 1, proxy=ir.Proxy.ASYNC), accumulates=True),),
            "tcgen05",
        )
        for tile in (0, 1)
    ]
    done = [ir.QueueArrive("tcgen05", at("F")), wait("F", 0), load(read("S", 2))]
    assert outcome({"a": [*step, *done]}, barriers=FULL, queues=(queue,)) == Verdict.VERIFIED
    plain = (dataclasses.replace(queue, pipelined=False),)
    assert outcome({"a": [*step, *done]}, barriers=FULL, queues=plain) in (
        FaultKind.READ_BEFORE_ARRIVAL,
        FaultKind.OVERWRITE_IN_FLIGHT,
    )


def test_an_arrival_behind_copies_needs_no_commit():
    """`cp.async.mbarrier.arrive` (PTX): what stands before it finishes; what is behind it may not.

    A wait on the queue still counts closed groups only.
    """
    first = ir.Asynchronous((write("S", 1),), "copies")
    second = ir.Asynchronous((write("S", 2, stage=1),), "copies")
    marker, commit = ir.QueueArrive("copies", at("F")), ir.Commit("copies")
    drain = ir.QueueWait("copies")
    reader = [wait("F", 0), load(read("S", 1))]
    declared = {
        "barriers": FULL,
        "queues": (ir.Queue("copies"),),
        "policies": ir.Policies(exit_in_flight="allow"),
    }
    for body, expected in (
        ([first, marker], Verdict.VERIFIED),
        ([first, marker, second, commit, drain], Verdict.VERIFIED),
        ([first, marker, commit, drain, load(read("S", 1))], Verdict.VERIFIED),
        ([first, marker, drain, load(read("S", 1))], FaultKind.READ_BEFORE_ARRIVAL),
        ([first, second, marker, wait("F", 0), load(read("S", 2, stage=1))], Verdict.VERIFIED),
        ([first, marker, second, wait("F", 0), load(read("S", 2, 1))],
         FaultKind.READ_BEFORE_ARRIVAL),
    ):  # fmt: skip
        assert outcome({"a": body, "b": reader}, **declared) == expected
    assert outcome({"a": [first, commit], "b": reader}, **declared) == FaultKind.DEADLOCK


def test_indices_out_of_range_are_faults():
    assert outcome({"a": [load(read("S", stage=2))]}) == FaultKind.INDEX_OUT_OF_RANGE
    assert outcome({"a": [wait("F", 0, index=1)]}, barriers=FULL) == FaultKind.INDEX_OUT_OF_RANGE


def ring(tiles, depth=2):
    """A producer and a consumer over any number of tiles."""
    produce = (
        wait("E", f"t // {depth} % 2 == 0", f"t % {depth}", f"t // {depth} - 1"),
        expect("F", index=f"t % {depth}"),
        copy("S", "t", "F", f"t % {depth}", f"t % {depth}"),
    )
    consume = (
        wait("F", f"t // {depth} % 2", f"t % {depth}", f"t // {depth}"),
        load(read("S", "t", f"t % {depth}")),
        ASYNC_FENCE,
        ir.Arrive(at("E", f"t % {depth}")),
    )
    start, stop = Constant(0), parse_expression("tiles")
    return program(
        {
            "p": [ir.Loop("t", start, stop, produce)],
            "c": [ir.Loop("t", start, stop, consume)],
        },
        barriers=(ir.Barrier("F", 1, depth), ir.Barrier("E", 1, depth)),
        buffers=(ir.Buffer("S", depth),),
        parameters=(ir.Parameter("tiles"),),
    )


@pytest.mark.parametrize("tiles", range(8))
def test_ring_for_small_numbers_of_tiles(tiles):
    assert explore_reference(ring(tiles), {"tiles": tiles}).verdict is Verdict.VERIFIED


def test_shortest_trace_replays_to_its_fault():
    broken = ring(3)
    consumer = broken.roles[1]
    loop = consumer.body[0]
    body = tuple(op for op in loop.body if not isinstance(op, ir.Wait))
    roles = (
        broken.roles[0],
        dataclasses.replace(consumer, body=(dataclasses.replace(loop, body=body),)),
    )
    result = explore_reference(dataclasses.replace(broken, roles=roles), {"tiles": 3})
    assert result.verdict is Verdict.REFUTED
    machine = Interpreter(dataclasses.replace(broken, roles=roles), {"tiles": 3})
    state = machine.initial()
    for step in result.trace.steps[:-1]:
        assert step in machine.steps(state)
        state, fault = machine.apply(state, step)
        assert fault is None
    _, fault = machine.apply(state, result.trace.steps[-1])
    assert fault == result.trace.fault
    assert all(step.actor in Actor for step in result.trace.steps)


def test_a_size_is_needed():
    with pytest.raises(ValueError, match="tiles"):
        Interpreter(ring(1))


def test_a_step_is_possible_where_it_is_one_of_all_steps():
    """In each state of some walks; the steps of other states are asked for, too."""
    drain = ir.QueueWait("q", constant(0))
    sending = ir.Asynchronous((read("S", 0),), "q")
    roles = {
        "producer": (expect("b"), copy("S", 0, "b", chunks=2), sending, ir.Commit("q"), drain),
        "consumer": (wait("b", 0), load(read("S", 0)), ir.Arrive(at("c"))),
        "third": (wait("c", 0),),
    }
    made = program(
        roles,
        barriers=(ir.Barrier("b", 1), ir.Barrier("c", 1)),
        queues=(ir.Queue("q", ordered=False, grouped=True),),
    )
    machine = Interpreter(made, {})
    seen = {Step(actor, agent, n) for actor in Actor for agent in range(4) for n in range(-1, 4)}
    refused = 0
    for seed in range(12):
        random, state = Random(seed), machine.initial()
        while state is not None and (steps := machine.steps(state)):
            for step in seen:
                assert machine.possible(state, step) == (step in steps)
                refused += step not in steps
            state, _ = machine.apply(state, random.choice(steps))
    assert refused > 100
