"""One small program for every rule of the happens-before engine, and the edges of its domain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from tests.building import ASYNC, FENCE, access, at, e, loop, program, read, write
from tests.engines.happens_before.replaying import assert_shown, replayed
from titan.engines.explore.reference import explore_reference
from titan.engines.happens_before.engine import OrderResult, analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

RELAXED = ir.Order.RELAXED
CLUSTER = ir.Scope.CLUSTER


def role(name: str, *body: ir.Operation, agents: int = 1, cta: int = 0) -> ir.Role:
    return ir.Role(name, body, agents, 1, cta)


def load(tile: int, buffer: str = "a", size: int = 16) -> tuple[ir.Operation, ...]:
    """Expect the bytes on `full`, then copy."""
    done = ir.Completion(at("full"), e(size))
    return (
        ir.Arrive(at("full"), transaction=e(size)),
        ir.Asynchronous((write(buffer, tile=tile, proxy=ASYNC),), None, (done,)),
    )


def decided(
    given: ir.SyncProgram, kind: FaultKind | None = None, sizes: dict[str, int] | None = None
) -> OrderResult:
    """The engine's verdict, held against the search; `kind` None asks for VERIFIED."""
    result = analyse(given, sizes)
    searched = explore_reference(given, sizes, Budget(20_000))
    if kind is None:
        assert result.verdict is Verdict.VERIFIED, result
        assert searched.verdict is Verdict.VERIFIED
    else:
        assert result.verdict is Verdict.REFUTED, result
        assert result.fault is not None and result.fault.kind is kind, result.fault
        assert searched.verdict is Verdict.REFUTED
        assert_shown(given, result)
    return result


# ------------------------------------------------------------------------------ access pairs


def test_two_writes_race_unless_a_barrier_orders_them():
    buffers = [ir.Buffer("a")]
    first, second = access(write("a", tile=1)), access(write("a", tile=2))
    roles = [role("p", first), role("q", second)]
    result = decided(program("race", roles, buffers=buffers), FaultKind.DATA_RACE)
    assert result.fault is not None and result.fault.agents == (0, 1)
    meet = ir.BarrierSync(at("bar"), e(2))
    roles = [role("p", first, meet), role("q", meet, second)]
    bars = [ir.NamedBarrier("bar")]
    decided(program("ordered", roles, buffers=buffers, named_barriers=bars))


def test_a_read_must_wait_for_the_copy():
    barriers, buffers = [ir.Barrier("full", 1)], [ir.Buffer("a", initial=0)]
    reader = access(read("a", tile=1))
    waits = role("c", ir.Wait(at("full"), e(0)), reader)
    decided(program("waits", [role("p", *load(1)), waits], barriers=barriers, buffers=buffers))
    meet = ir.BarrierSync(at("bar"), e(2))
    producer = role("p", *load(1), meet, ir.Wait(at("full"), e(0)))
    early = program(
        "early",
        [producer, role("c", meet, reader)],
        barriers=barriers,
        buffers=buffers,
        named_barriers=[ir.NamedBarrier("bar")],
    )
    decided(early, FaultKind.READ_BEFORE_ARRIVAL)


def test_an_access_before_an_issue_that_nothing_orders():
    """In the run the read comes first; elsewhere it meets the copy in flight."""
    roles = [role("c", access(read("a"))), role("p", *load(1), ir.Wait(at("full"), e(0)))]
    given = program(
        "unordered",
        roles,
        barriers=[ir.Barrier("full", 1)],
        buffers=[ir.Buffer("a", initial=0)],
        policies=ir.Policies(war_fence=False),
    )
    decided(given, FaultKind.READ_BEFORE_ARRIVAL)


def test_the_reads_of_a_store_are_over_before_its_writes():
    store = ir.Asynchronous(
        (read("a", tile=1, proxy=ASYNC), write("out", tile=1, proxy=ASYNC)), "bulk"
    )
    write_a, write_out = access(write("a", tile=2)), access(write("out", tile=2))

    def given(then: ir.Operation) -> ir.SyncProgram:
        wait = ir.QueueWait("bulk", e(0), ir.Until.READ)
        rest = ir.QueueWait("bulk", e(0))
        body = (access(write("a", tile=1)), FENCE, store, ir.Commit("bulk"), wait, then, rest)
        buffers = [ir.Buffer("a"), ir.Buffer("out", space=ir.Space.GLOBAL)]
        queues = [ir.Queue("bulk")]
        return program("store", [role("p", *body)], buffers=buffers, queues=queues)

    decided(given(write_a))
    decided(given(write_out), FaultKind.OVERWRITE_IN_FLIGHT)


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_pipelined_queue_orders_its_own_operations(pipelined: bool):
    mma = ir.Asynchronous((replace(write("acc", tile=0), accumulates=True),), "mma")
    body = (access(write("acc", tile=0)), mma, mma, ir.Commit("mma"), ir.QueueWait("mma"))
    queues = [ir.Queue("mma", pipelined=pipelined)]
    given = program("chain", [role("m", *body)], buffers=[ir.Buffer("acc")], queues=queues)
    decided(given, None if pipelined else FaultKind.OVERWRITE_IN_FLIGHT)


# --------------------------------------------------------------------------- proxies


@pytest.mark.parametrize("rule", ["writer", "path"])
@pytest.mark.parametrize("fences", ["writer", "issuer", "nobody"])
def test_who_must_fence(rule: str, fences: str):
    store = ir.Asynchronous((read("a", tile=1, proxy=ASYNC),), "bulk")
    meet = ir.BarrierSync(at("bar"), e(2))
    own = (FENCE,) if fences == "writer" else ()
    other = (FENCE,) if fences == "issuer" else ()
    done = (ir.Commit("bulk"), ir.QueueWait("bulk"))
    given = program(
        "fences",
        [
            role("w", access(write("a", tile=1)), *own, meet),
            role("s", meet, *other, store, *done),
        ],
        buffers=[ir.Buffer("a")],
        named_barriers=[ir.NamedBarrier("bar")],
        queues=[ir.Queue("bulk")],
        policies=ir.Policies(fence_rule=rule),
    )
    enough = fences == "writer" or (fences == "issuer" and rule == "path")
    decided(given, None if enough else FaultKind.MISSING_FENCE)


def test_a_fence_that_is_not_after_the_end_of_a_generic_copy_is_none():
    """cp.async is of the generic proxy: the fence must come after it has been waited for."""
    copy = ir.Asynchronous((write("a", tile=1),), "cp")
    mma = ir.Asynchronous((read("a", tile=1, proxy=ASYNC),), "mma")
    wait, end = ir.QueueWait("cp"), (ir.Commit("mma"), ir.QueueWait("mma"))

    def given(*middle: ir.Operation) -> ir.SyncProgram:
        body = (copy, ir.Commit("cp"), *middle, mma, *end)
        queues = [ir.Queue("cp"), ir.Queue("mma", pipelined=True)]
        return program("cp", [role("w", *body)], buffers=[ir.Buffer("a")], queues=queues)

    decided(given(wait, FENCE))
    decided(given(FENCE, wait), FaultKind.MISSING_FENCE)


@pytest.mark.parametrize("war", [True, False])
def test_a_generic_read_needs_a_fence_before_the_next_copy_by_policy(war: bool):
    consumer = role("c", ir.Wait(at("full"), e(0)), access(read("a", tile=1)),
                    ir.Arrive(at("empty")))  # fmt: skip
    producer = role("p", *load(1), ir.Wait(at("empty"), e(0)), *load(2), ir.Wait(at("full"), e(1)))
    given = program(
        "war",
        [producer, consumer],
        barriers=[ir.Barrier("full", 1), ir.Barrier("empty", 1)],
        buffers=[ir.Buffer("a", initial=0)],
        policies=ir.Policies(war_fence=war),
    )
    decided(given, FaultKind.MISSING_FENCE_WAR if war else None)


@pytest.mark.parametrize("fenced", ["", "before", "after"])
@pytest.mark.parametrize("kept", ["both", "release", "acquire"])
def test_a_tensor_map_needs_release_and_acquire(kept: str, fenced: str):
    """A fence for the asynchronous proxy beside the release changes nothing."""
    release = ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)
    acquire = ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE)
    meet = ir.BarrierSync(at("bar"), e(2))
    use = ir.Asynchronous((read("map", tile=1, proxy=ir.Proxy.TENSORMAP),), "bulk")
    first = (release,) if kept in ("both", "release") else ()
    first = {"": first, "before": (FENCE, *first), "after": (*first, FENCE)}[fenced]
    second = (acquire,) if kept in ("both", "acquire") else ()
    given = program(
        "map",
        [
            role("w", access(write("map", tile=1)), *first, meet),
            role("s", meet, *second, use, ir.Commit("bulk"), ir.QueueWait("bulk")),
        ],
        buffers=[ir.Buffer("map", space=ir.Space.GLOBAL)],
        named_barriers=[ir.NamedBarrier("bar")],
        queues=[ir.Queue("bulk")],
    )
    decided(given, None if kept == "both" else FaultKind.MISSING_TENSORMAP_FENCE)


# ------------------------------------------------------------------------- weak orders


def hand_over(
    arrive: ir.Arrive, wait: ir.Wait, ctas: tuple[int, int] = (0, 0), fence: bool = False
) -> ir.SyncProgram:
    """One agent writes and arrives, another waits and reads (or copies out)."""
    store = ir.Asynchronous((read("a", tile=1, proxy=ASYNC),), "bulk")
    after = (store, ir.Commit("bulk"), ir.QueueWait("bulk")) if fence else (access(read("a")),)
    before = (FENCE,) if fence else ()
    back = ir.Arrive(at("back"), scope=CLUSTER)
    end = ir.Wait(at("back"), e(0), scope=CLUSTER)
    return program(
        "hand_over",
        [
            role("w", access(write("a", tile=1)), *before, arrive, end, cta=ctas[0]),
            role("r", wait, *after, back, cta=ctas[1]),
        ],
        barriers=[ir.Barrier("full", 1, cta=ctas[1]), ir.Barrier("back", 1, cta=ctas[0])],
        buffers=[ir.Buffer("a", cta=ctas[1])],
        queues=[ir.Queue("bulk")],
    )


def arrive_with(order: ir.Order = ir.Order.SYNCHRONISING, scope: ir.Scope = ir.Scope.CTA):
    return ir.Arrive(at("full"), order=order, scope=scope)


def wait_with(order: ir.Order = ir.Order.SYNCHRONISING, scope: ir.Scope = ir.Scope.CTA):
    return ir.Wait(at("full"), e(0), order=order, scope=scope)


@pytest.mark.parametrize(
    ("given", "weak"),
    [
        (hand_over(arrive_with(), wait_with()), False),
        (hand_over(arrive_with(RELAXED), wait_with()), True),
        (hand_over(arrive_with(), wait_with(RELAXED)), True),
        (hand_over(arrive_with(RELAXED), wait_with(), fence=True), True),
        (hand_over(arrive_with(), wait_with(), fence=True), False),
        (hand_over(arrive_with(), wait_with(), (0, 1)), True),
        (hand_over(arrive_with(scope=CLUSTER), wait_with(), (0, 1)), True),
        (hand_over(arrive_with(), wait_with(scope=CLUSTER), (0, 1)), True),
        (hand_over(arrive_with(scope=CLUSTER), wait_with(scope=CLUSTER), (0, 1)), False),
    ],
)
def test_order_without_visibility(given: ir.SyncProgram, weak: bool):
    """The machine that interleaves sees no fault; the order alone decides."""
    result = analyse(given)
    assert explore_reference(given).verdict is Verdict.VERIFIED
    if not weak:
        assert result.verdict is Verdict.VERIFIED, result
        return
    assert result.verdict is Verdict.REFUTED and not result.shown
    assert result.fault is not None and result.fault.kind is FaultKind.WEAK_SYNCHRONISATION
    assert replayed(given, result) is None


def test_what_an_engine_read_needs_execution_order_only():
    """A release by count alone is enough before the next copy (CUTLASS: remote empty arrives)."""
    mma = ir.Asynchronous((read("a", proxy=ASYNC),), "mma")
    release = ir.Arrive(at("empty"), order=RELAXED)
    consumer = role("c", ir.Wait(at("full"), e(0)), mma, ir.Commit("mma"), ir.QueueWait("mma"),
                    release)  # fmt: skip
    producer = role("p", *load(1), ir.Wait(at("empty"), e(0)), *load(2), ir.Wait(at("full"), e(1)))
    given = program(
        "counted",
        [producer, consumer],
        barriers=[ir.Barrier("full", 1), ir.Barrier("empty", 1)],
        buffers=[ir.Buffer("a")],
        queues=[ir.Queue("mma")],
    )
    decided(given)


# ------------------------------------------------------------------- phases and lapping


def lapping(phase: bool, rounds: int) -> ir.SyncProgram:
    """One agent completes `rounds` phases alone; another waits for the first only."""
    wait = ir.Wait(at("b"), e(0), e(0) if phase else None)
    own = ir.Wait(at("b"), e("t % 2"), e("t"))
    roles = [role("p", loop("t", rounds, [ir.Arrive(at("b")), own])), role("c", wait)]
    return program("lap", roles, barriers=[ir.Barrier("b", 1)])


def test_a_waiter_that_can_be_lapped():
    decided(lapping(True, 1))
    decided(lapping(False, 1))
    decided(lapping(True, 2), FaultKind.LAPPED_WAIT)
    # Without the phase the waiter misses its turn and sleeps for ever ...
    decided(lapping(False, 2), FaultKind.DEADLOCK)
    # ... or until the parity comes round again, which one run does not tell apart.
    result = analyse(lapping(False, 3))
    assert result.reason is Reason.NOT_APPLICABLE
    assert "c may" in result.remark and "wait" in result.remark
    assert explore_reference(lapping(False, 3)).verdict is Verdict.VERIFIED


def test_arrivals_of_two_phases_that_nothing_orders():
    """Two producers of one arrival each: the second round of one may come before the first."""
    rounds = loop("t", 2, [ir.Arrive(at("b"))])
    given = program("early", [role("p", rounds, agents=2)], barriers=[ir.Barrier("b", 2)])
    decided(given, FaultKind.UNOBSERVED_PHASE)
    # In one phase all the same: each of three arrivals may be the first.
    once = program("once", [role("p", *rounds.body, agents=3)], barriers=[ir.Barrier("b", 3)])
    decided(once)
    waits = loop("t", 2, [ir.Arrive(at("b")), ir.Wait(at("b"), e("t % 2"), e("t"))])
    decided(program("waits", [role("p", waits, agents=2)], barriers=[ir.Barrier("b", 2)]))


def test_bytes_expected_after_the_last_arrival():
    """One agent arrives, another expects: too late in some interleaving."""
    copy = ir.Asynchronous((), None, (ir.Completion(at("b"), e(8)),))
    expects = role("x", ir.ExpectTransaction(at("b"), e(8)), copy, ir.Wait(at("b"), e(0)))
    arrives = role("y", ir.Arrive(at("b")))
    given = program("late", [expects, arrives], barriers=[ir.Barrier("b", 1)])
    result = analyse(given)
    assert result.verdict is Verdict.REFUTED, result
    assert_shown(given, result)
    assert explore_reference(given).verdict is Verdict.REFUTED


def test_a_chunk_is_not_the_end_of_its_copy():
    """The first half of the bytes completes a phase; the data has not all arrived."""
    copy = ir.Asynchronous(
        (write("a", tile=1, proxy=ASYNC),), "q", (ir.Completion(at("b"), e(16)),), chunks=2
    )
    half = ir.Arrive(at("b"), transaction=e(8))
    body = (half, copy, ir.Wait(at("b"), e(0)), access(read("a", tile=1)), half)
    given = program(
        "half",
        [role("p", *body, ir.Wait(at("b"), e(1)))],
        barriers=[ir.Barrier("b", 1)],
        buffers=[ir.Buffer("a", initial=0)],
        queues=[ir.Queue("q", grouped=False)],
    )
    decided(given, FaultKind.READ_BEFORE_ARRIVAL)


@pytest.mark.parametrize("held", [True, False])
def test_a_state_wait_ends_before_the_phase_after_the_next(held):
    taken, plain = ir.Arrive(at("b"), token=True), ir.Arrive(at("b"))
    seen = ir.Wait(at("b"), e("0"), e("0"))
    given = program(
        "tokens",
        [
            role("p", taken, ir.TokenWait(at("b")), *([ir.Arrive(at("c"))] if held else [])),
            role("q", seen, *([ir.Wait(at("c"), e("0"))] if held else []), plain),
        ],
        barriers=[ir.Barrier("b", 1), ir.Barrier("c", 1)],
    )
    decided(given, *([] if held else [FaultKind.NAMED_BARRIER_MISUSE]))


def test_state_waits_and_dropped_arrivals():
    body = (ir.Arrive(at("b"), token=True), ir.TokenWait(at("b")))
    given = program(
        "tokens",
        [
            role("p", *body, access(write("a", tile=1)), *body),
            role("q", *body, ir.Arrive(at("b"), drop=True)),
        ],
        barriers=[ir.Barrier("b", 2)],
        buffers=[ir.Buffer("a")],
    )
    decided(given)


def test_arriving_twice_at_a_named_barrier():
    arrive = ir.BarrierArrive(at("bar"), e(2))
    meet = ir.BarrierSync(at("bar"), e(2))
    roles = [role("p", arrive, arrive), role("q", meet, meet)]
    given = program("twice", roles, named_barriers=[ir.NamedBarrier("bar")])
    decided(given, FaultKind.NAMED_BARRIER_MISUSE)


# -------------------------------------------------------------- lifecycle, exit, pools


@pytest.mark.parametrize("missing", ["nothing", "meet", "fence"])
def test_a_barrier_is_initialised_and_published_before_it_is_used(missing: str):
    meet = (ir.BarrierSync(at("bar"), e(2)),) if missing != "meet" else ()
    fence = (ir.Fence(ir.FenceKind.BARRIER_INIT),) if missing != "fence" else ()
    given = program(
        "init",
        [
            role("p", ir.Init(at("full"), e(1)), *fence, *meet, ir.Wait(at("full"), e(0))),
            role("c", *meet, *load(1), ir.Wait(at("full"), e(0))),
        ],
        barriers=[ir.Barrier("full", 1, initialised=False)],
        named_barriers=[ir.NamedBarrier("bar")],
        buffers=[ir.Buffer("a")],
    )
    kinds = {"meet": FaultKind.BARRIER_UNINITIALISED, "fence": FaultKind.UNPUBLISHED_INIT}
    decided(given, kinds.get(missing))


def test_a_barrier_is_invalidated_after_its_last_use():
    wait, invalidate = ir.Wait(at("b"), e(0)), ir.Invalidate(at("b"))
    meet = ir.BarrierSync(at("bar"), e(2))

    def given(*last: ir.Operation) -> ir.SyncProgram:
        roles = [role("p", ir.Arrive(at("b")), wait, *last), role("c", wait, meet)]
        bars = [ir.NamedBarrier("bar")]
        return program("end", roles, barriers=[ir.Barrier("b", 1)], named_barriers=bars)

    decided(given(meet, invalidate))
    assert analyse(given(invalidate, meet)).verdict is Verdict.REFUTED
    assert explore_reference(given(invalidate, meet)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("policy", ["refuse", "allow"])
def test_work_in_flight_when_the_cta_ends(policy: str):
    """The store is never waited for; its CTA may end first."""
    store = ir.Asynchronous((read("a", proxy=ASYNC),))
    given = program(
        "exit",
        [role("p", store)],
        buffers=[ir.Buffer("a", initial=0)],
        policies=ir.Policies(exit_in_flight=policy),
    )
    decided(given, FaultKind.LEAK_AT_EXIT if policy == "refuse" else None)


def test_a_remote_arrival_at_a_cta_that_may_have_ended():
    far = ir.Arrive(at("b"), scope=CLUSTER)
    wait = ir.Wait(at("b"), e(0), scope=CLUSTER)
    roles = [role("p", far, cta=1), role("q", cta=0)]
    barriers = [ir.Barrier("b", 1)]
    meet = ir.BarrierArrive(at("bar"), e(2))
    bars = [ir.NamedBarrier("bar", scope=CLUSTER)]
    decided(program("stays", [role("p", far, cta=1), role("q", wait)], barriers=barriers))
    roles = [role("p", meet, far, cta=1), role("q", meet)]
    given = program("left", roles, barriers=barriers, named_barriers=bars)
    decided(given, FaultKind.LEAK_AT_EXIT)


def test_registers_given_back_are_enough_or_not():
    take, give = ir.PoolTake("r", e(2)), ir.PoolGive("r", e(4))
    pools = [ir.Pool("r", 0)]
    decided(program("enough", [role("p", give), role("c", take, agents=2)], pools=pools))
    given = program("short", [role("p", give), role("c", take, agents=3)], pools=pools)
    decided(given, FaultKind.DEADLOCK)
    turns = (take, ir.PoolGive("r", e(2)))
    decided(program("turns", [role("c", *turns, agents=3)], pools=[ir.Pool("r", 4)]))


def test_a_pool_is_given_more_before_the_large_take():
    """With every take but the second role's done, the pool would hold less than nothing."""
    large = role("large", ir.PoolTake("r", e(3)))
    small = role("small", ir.PoolTake("r", e(1)), ir.PoolGive("r", e(2)))
    decided(program("refilled", [large, small], pools=[ir.Pool("r", 2)]))
    spent = role("large", ir.PoolTake("r", e(3)), ir.PoolGive("r", e(1)))
    decided(program("spent", [spent, small], pools=[ir.Pool("r", 2)]))
    short = role("small", ir.PoolTake("r", e(1)), ir.PoolGive("r", e(1)))
    decided(program("short", [large, short], pools=[ir.Pool("r", 2)]), FaultKind.DEADLOCK)


STEP = st.sampled_from(
    [ir.PoolTake(pool, e(n)) for pool in "rs" for n in (1, 2, 3)]
    + [ir.PoolGive(pool, e(n)) for pool in "rs" for n in (1, 2)]
    + [ir.BarrierSync(at("bar"), e(3))]
)


@settings(max_examples=150)
@drawn(st.lists(st.lists(STEP, max_size=5), min_size=3, max_size=3))
def test_pools_are_decided_as_by_the_search(bodies):
    """Of two pools at once, as taking from one may let others give to the other."""
    meetings = min(sum(isinstance(step, ir.BarrierSync) for step in body) for body in bodies)
    roles = []
    for number, body in enumerate(bodies):
        left, kept = meetings, []
        for step in body:
            if isinstance(step, ir.BarrierSync):
                left -= 1
                if left < 0:
                    continue
            kept.append(step)
        roles.append(role(f"a{number}", *kept))
    pools = [ir.Pool("r", 2), ir.Pool("s", 1)]
    asked = program("pools", roles, pools=pools, named_barriers=[ir.NamedBarrier("bar")])
    searched = explore_reference(asked, None, Budget(50_000)).verdict
    found = analyse(asked).verdict
    assert (found is Verdict.VERIFIED) == (searched is Verdict.VERIFIED)
    assert found is not Verdict.REFUTED or searched is Verdict.REFUTED


# ------------------------------------------------------------------------ AMD, limits


@pytest.mark.parametrize("wait_first", [True, False])
def test_waves_wait_for_their_counter_before_the_barrier(wait_first: bool):
    """A19: a wait after s_barrier covers the own part only."""
    wait, meet = ir.QueueWait("vmcnt"), ir.BarrierSync(at("s_barrier"), e(128))
    copy = ir.Asynchronous((write("lds", tile=1, part="self"),), "vmcnt")
    order = (wait, meet) if wait_first else (meet, wait)
    given = program(
        "waves",
        [ir.Role("wave", (copy, *order, access(read("lds", tile=1))), 2, 64)],
        buffers=[ir.Buffer("lds", parts=2, initial=0)],
        named_barriers=[ir.NamedBarrier("s_barrier")],
        queues=[ir.Queue("vmcnt", grouped=False)],
        target="gfx942",
    )
    decided(given, None if wait_first else FaultKind.READ_BEFORE_ARRIVAL)


def test_a_counter_without_order_tells_something_only_at_zero():
    copies = tuple(ir.Asynchronous((write(name, tile=1),), "lgkm") for name in "ab")

    def given(pending: int) -> ir.SyncProgram:
        body = (*copies, ir.QueueWait("lgkm", e(pending)), access(read("a")), ir.QueueWait("lgkm"))
        return program(
            "scalar",
            [role("w", *body)],
            buffers=[ir.Buffer("a"), ir.Buffer("b")],
            queues=[ir.Queue("lgkm", grouped=False, ordered=False)],
        )

    decided(given(0))
    decided(given(1), FaultKind.READ_BEFORE_ARRIVAL)


def test_a_deadlock_is_the_end_of_the_run():
    wait = role("c", ir.Wait(at("b"), e(0)))
    result = decided(program("wait", [wait], barriers=[ir.Barrier("b", 1)]), FaultKind.DEADLOCK)
    assert result.trace is not None and result.trace.steps == ()


def test_sizes_budget_and_endless_control():
    tiles = [ir.Parameter("tiles")]
    given = program("n", [role("p", loop("t", "tiles", [FENCE]))], parameters=tiles)
    assert analyse(given, {"tiles": 3}).operations == 3
    assert analyse(given, {"tiles": 0}).verdict is Verdict.VERIFIED
    with pytest.raises(ValueError, match="tiles"):
        analyse(given)
    spent = analyse(given, {"tiles": 50}, budget=Budget(operations_max=20))
    assert spent.verdict is Verdict.UNDECIDED and "20 operations" in spent.remark
    endless = ir.Loop("t", e(0), e(1), (ir.Assign("t", e(-1)),))
    result = analyse(program("loop", [role("p", endless)]))
    assert result.verdict is Verdict.UNDECIDED and "does not end" in result.remark
    nothing = analyse(program("zero", [role("p", ir.Arrive(at("b"), e("1 // 0")))],
                              barriers=[ir.Barrier("b", 1)]))  # fmt: skip
    assert nothing.reason is Reason.NO_VALUE and "no value" in nothing.remark
    chunks = program("chunks", [role("p", ir.Asynchronous((), chunks=0))])
    assert "no chunk" in analyse(chunks).remark
