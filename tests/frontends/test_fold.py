"""Folding recordings into loops: found again, compared, verified for any number, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.frontends.story import EMPTY, FULL, TILE, Story, ring
from titan.foundation.source.span import Span
from titan.foundation.verdict import Verdict
from titan.frontends.lift.fold import TRIPS, Folded, Recorded, fold
from titan.frontends.lift.kernel_text import Heading
from titan.frontends.lift.lifted import (
    BARRIER_CELL,
    OUTPUTS_NOTE,
    LiftedKernel,
    lift_recordings,
)
from titan.frontends.lift.names import named
from titan.frontends.lift.segments import NotFoldedError, segments_of
from titan.frontends.lift.unfolded import difference
from titan.frontends.ptx.alike import merged_alike, outputs_in_order, without_single_uses
from titan.isa.simt import events as ev
from titan.sync import program as ir
from titan.sync.parts import effects_of
from titan.verify.engines import VerifyBudget, run_explorer


def recorded(trips: int, depth: int, **more) -> Recorded:
    return Recorded(trips, ring(trips, depth, **more).recording().program)


def equal(folded: Folded, item: Recorded, trips: int | None = None) -> bool:
    final = named(folded)
    sizes = {TRIPS: item.trips if trips is None else trips}
    return difference(final.program, sizes, final.table, item.program) is None


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_ring_folds_and_holds_for_any_number(depth):
    used = [recorded(t, depth) for t in range(2 * depth + 1, 3 * depth + 4)]
    folded = fold(used)
    held_out = [recorded(t, depth) for t in (0, 1, depth, 3 * depth + 7, 5 * depth)]
    assert all(equal(folded, item) for item in (*used, *held_out))
    assert not equal(folded, held_out[-1], trips=7 * depth)
    loops = [op for role in folded.program.roles for op in role.body if isinstance(op, ir.Loop)]
    assert len(loops) == 2
    pytest.importorskip("titan.engines.explore._core")
    report = run_explorer(named(folded).program, VerifyBudget(1_000_000))
    assert report.verdict is Verdict.VERIFIED
    assert report.sizes == ((TRIPS, None),)


def test_a_fault_of_late_rounds_is_found_for_any_number():
    """The last stage is never waited for: seen only by who looks at every number."""
    folded = fold([recorded(t, 2, drain=False) for t in range(5, 10)])
    pytest.importorskip("titan.engines.explore._core")
    report = run_explorer(named(folded).program, VerifyBudget(1_000_000))
    assert report.verdict is Verdict.REFUTED


def test_what_does_not_repeat_is_refused():
    with pytest.raises(NotFoldedError, match="fewer than 3"):
        fold([recorded(3, 2), recorded(4, 2)])
    odd = ring(11, 2)
    odd.access(1, 3 * TILE, 8)
    odd.access(0, 3 * TILE, 8)
    programs = [recorded(3, 2), recorded(5, 2), Recorded(11, odd.recording().program)]
    with pytest.raises(NotFoldedError, match="another path"):
        fold(programs)


def test_any_change_of_a_recording_is_seen():
    """Each operation of a recording left out, done twice, or done to something else."""
    folded = fold([recorded(t, 2) for t in range(5, 10)])
    item = recorded(6, 2)
    for number, role in enumerate(item.program.roles):
        for place, operation in enumerate(role.body):
            for other in ((), (operation, operation), tuple(_other(operation))):
                body = (*role.body[:place], *other, *role.body[place + 1 :])
                if body == role.body:
                    continue
                roles = list(item.program.roles)
                roles[number] = replace(role, body=body)
                changed = replace(item.program, roles=tuple(roles))
                assert not equal(folded, Recorded(6, changed)), (number, place, other)


def _other(operation: ir.Operation) -> list[ir.Operation]:
    if isinstance(operation, ir.Wait):
        return [replace(operation, phase=ir.ONE if operation.phase != ir.ONE else ir.ZERO)]
    if isinstance(operation, ir.Access | ir.Asynchronous):
        effects = tuple(replace(item, write=not item.write) for item in operation.effects)
        return [replace(operation, effects=effects)]
    return [operation]


def test_a_straight_line_stays_as_it_is():
    story = Story()
    story.access(0, 0, 8)
    story.sync([0, 1])
    story.access(1, 0, 8)
    program = story.recording().program
    folded = fold([Recorded(t, program) for t in (1, 2, 3)])
    shape = [[type(item) for item in role.body] for role in folded.program.roles]
    assert shape == [[type(item) for item in role.body] for role in program.roles]
    assert equal(folded, Recorded(2, program))


def test_stages_cut_into_unequal_regions_are_one_ring():
    """An epilogue that writes a part of one stage must not hide the ring."""

    def story(trips: int) -> Story:
        made = ring(trips, 2)
        made.sync([0, 1], number=1)
        made.access(0, 0, 64)
        made.access(1, 64, 64)
        return made

    folded = fold([Recorded(t, story(t).recording().program) for t in range(5, 10)])
    assert {(array.stages, array.parts) for array in folded.memory.arrays.values()} >= {(2, 3)}
    assert equal(folded, Recorded(12, story(12).recording().program))


def test_bytes_that_are_a_barrier_at_other_times_belong_to_one_stage():
    """Stage 0 alone is a barrier before the loop: the copy into it differs from the others."""

    def story(trips: int) -> Story:
        made = Story()
        made.init(0, 0, 1)
        made.invalidate(0, 0)
        made.sync([0, 1], number=1)
        return ring(trips, 3, story=made)

    items = [Recorded(t, story(t).recording().program) for t in range(7, 13)]
    assert any(buffer.name.endswith(BARRIER_CELL) for buffer in items[0].program.buffers)
    assert equal(fold(items[:5]), items[5])
    lifted = lift_recordings(items, range(7, 12), Heading("k", "sm_90a", "story"), lambda _: "")
    assert lifted.barrier_bytes and lifted.compared == (12,)


def test_regions_that_all_use_alike_are_one():
    program = recorded(5, 2).program
    doubled = replace(
        program,
        buffers=(*program.buffers, *(replace(i, name=f"{i.name}'") for i in program.buffers)),
        roles=tuple(
            replace(role, body=tuple(_twice(item) for item in role.body)) for role in program.roles
        ),
    )
    (single,), _ = merged_alike([program])
    (merged,), stands = merged_alike([doubled])
    assert merged == single
    assert set(stands.values()) == {2}


def _twice(operation: ir.Operation) -> ir.Operation:
    if not isinstance(operation, ir.Access | ir.Asynchronous):
        return operation
    more = tuple(replace(item, buffer=f"{item.buffer}'") for item in operation.effects)
    return replace(operation, effects=operation.effects + more)


def test_repeats_of_a_fixed_number_are_no_loop():
    """Four stores in every epilogue do not depend on the trips."""
    bodies = {
        trips: tuple([ir.Commit("a"), ir.Commit("b")] * trips + [ir.Commit("c")] * 4)
        for trips in (3, 4, 5)
    }
    segments = segments_of("warp 0", bodies)
    assert [(item.length, item.slope) for item in segments] == [(2, 1), *[(1, 0)] * 4]


def test_an_output_may_lie_elsewhere_for_each_number_of_trips():
    def program(trips: int) -> ir.SyncProgram:
        made = recorded(trips, 2).program
        name = f"global+{trips * 4096:#x}"
        store = ir.Asynchronous((ir.Effect(name, write=True, proxy=ir.Proxy.ASYNC),))
        roles = (made.roles[0], replace(made.roles[1], body=(*made.roles[1].body, store)))
        buffer = ir.Buffer(name, space=ir.Space.GLOBAL)
        return replace(made, roles=roles, buffers=(*made.buffers, buffer))

    items = [Recorded(t, outputs_in_order(program(t))) for t in range(5, 11)]
    assert equal(fold(items[:5]), items[5])


def two_rings(trips: int) -> Story:
    """As attention: keys and values in rings of their own, filled in turn by alike operations."""
    story = Story()
    keys, values = (0, FULL, EMPTY), (2 * TILE, FULL + 16, EMPTY + 16)
    for _, full, empty in (keys, values):
        for stage in range(2):
            story.init(0, full + 8 * stage, 1)
            story.init(0, empty + 8 * stage, 1)
    story.sync([0, 1])
    for trip in range(trips):
        stage, turn = trip % 2, trip // 2
        for low, full, empty in (keys, values):
            story.wait(0, empty + 8 * stage, turn - 1)
            story.arrive(0, full + 8 * stage, turn, expect=TILE)
            story.load(0, low + stage * TILE, TILE, full + 8 * stage)
    for trip in range(trips):
        stage, turn = trip % 2, trip // 2
        for low, full, empty in (keys, values):
            story.wait(1, full + 8 * stage, turn)
            story.access(1, low + stage * TILE, TILE, ev.Mode.READ)
            if low:
                story.fence(1)
            story.arrive(1, empty + 8 * stage, turn)
    return story


def test_rings_that_are_filled_in_turn_are_told_apart():
    used = [Recorded(t, two_rings(t).recording().program) for t in range(5, 10)]
    folded = fold(used)
    held_out = [Recorded(t, two_rings(t).recording().program) for t in (0, 1, 2, 14)]
    assert all(equal(folded, item) for item in (*used, *held_out))
    stages = sorted(item.stages for item in folded.program.barriers)
    assert stages == [2, 2, 2, 2]
    pytest.importorskip("titan.engines.explore._core")
    report = run_explorer(named(folded).program, VerifyBudget(1_000_000))
    assert report.verdict is Verdict.VERIFIED and report.sizes == ((TRIPS, None),)


def output(trip: int) -> str:
    return f"global+{trip**2 * 4096:#x}"


def tiles_of_output(trips: int, clash: int | None = None) -> Recorded:
    """Each trip stores another tile of global memory, at an address that no stride explains.

    `clash`: the trip in which warp 0 stores to the tile of warp 1, too.
    """
    made = recorded(trips, 2).program

    def with_stores(role: ir.Role) -> ir.Role:
        body: list[ir.Operation] = []
        trip = 0
        for operation in role.body:
            body.append(operation)
            if isinstance(operation, ir.Wait):
                if role.name == "warp 1" or trip == clash:
                    body.append(ir.Access((ir.Effect(output(trip), write=True),)))
                trip += 1
        return replace(role, body=tuple(body))

    used = (ir.Buffer(output(trip), space=ir.Space.GLOBAL) for trip in range(trips))
    roles = tuple(with_stores(role) for role in made.roles)
    return Recorded(trips, replace(made, roles=roles, buffers=(*made.buffers, *used)))


def lifted_tiles(items: list[Recorded]) -> LiftedKernel:
    return lift_recordings(items, range(5, 10), Heading("k", "sm_90a", "story"), lambda _: "")


def test_a_new_tile_of_output_in_each_trip_is_left_out_with_a_note():
    items = [tiles_of_output(trips) for trips in range(5, 13)]
    with pytest.raises(NotFoldedError):
        fold(items[:5])
    lifted = lifted_tiles(items)
    assert lifted.outputs_left_out and OUTPUTS_NOTE in lifted.text
    assert not any(b.space is ir.Space.GLOBAL for b in lifted.kernel.program.buffers)
    assert lifted.compared == (10, 11, 12)
    assert not lifted_tiles([recorded(trips, 2) for trips in range(5, 13)]).outputs_left_out


@pytest.mark.parametrize("fault", ["first", "last", "odd", "held out"])
def test_a_tile_that_two_warps_store_is_never_left_out(fault):
    """In the first trip, in the last, in recordings of one parity, or in one not folded from."""

    def clash(trips: int) -> int | None:
        chosen = {
            "first": 0,
            "last": trips - 1,
            "odd": 3 if trips % 2 else None,
            "held out": 2 if trips == 12 else None,
        }
        return chosen[fault]

    items = [tiles_of_output(trips, clash(trips)) for trips in range(5, 13)]
    left = [without_single_uses(item.program)[0].buffers for item in items]
    assert any(item.space is ir.Space.GLOBAL for buffers in left for item in buffers)
    try:
        lifted = lifted_tiles(items)
    except NotFoldedError:
        return
    kept = [item for item in lifted.kernel.program.buffers if item.space is ir.Space.GLOBAL]
    assert kept, "the tile of two warps is in the file"


# ------------------------------------------------------------ loops of accesses, written by hand


def straight(trips: int, *operations: ir.Operation) -> Recorded:
    """A recording of one agent; its regions are those that the operations name."""
    names = {effect.buffer: None for item in operations for effect in effects_of(item)}
    buffers = tuple(ir.Buffer(name) for name in names)
    role = ir.Role("wave 0", operations, threads=64)
    barriers = (ir.NamedBarrier("s_barrier"),)
    return Recorded(trips, ir.SyncProgram("k", "gfx950", (role,), (), (), barriers, buffers))


def touch(line: int, *names: str, write: bool = True) -> ir.Access:
    effects = tuple(ir.Effect(name, ir.ZERO, write) for name in names)
    return ir.Access(effects, span=Span("k.s", line, 1, line, 2))


def meet(line: int) -> ir.BarrierSync:
    return ir.BarrierSync(ir.Reference("s_barrier"), ir.ONE, span=Span("k.s", line, 1, line, 2))


def test_an_epilogue_may_use_a_part_of_the_stage_that_is_due():
    """Halves of a stage that every round uses together are apart for what comes behind the loop."""

    def made(trips: int) -> Recorded:
        rounds = [touch(1, f"a+{r % 2}", f"b+{r % 2}") for r in range(trips)]
        last = touch(2, f"a+{(trips - 1) % 2}", write=False)
        return straight(trips, *rounds, meet(3), last)

    folded = fold([made(trips) for trips in range(5, 9)])
    assert equal(folded, made(12)) and equal(folded, made(15))
    assert sorted(array.stages for array in folded.memory.arrays.values()) == [2, 2]


def test_code_in_front_of_a_loop_may_do_what_a_part_of_its_body_does():
    """A prologue stores the first tile at once, and the loop the next ones in two parts."""

    def made(trips: int) -> Recorded:
        rounds = [
            item
            for _ in range(trips)
            for item in (
                meet(3), touch(4, "a", "b", write=False), meet(5), touch(6, "a"), touch(7, "b"),
            )
        ]  # fmt: skip
        return straight(trips, touch(1, "a", "b"), touch(2, "c"), *rounds)

    folded = fold([made(trips) for trips in range(5, 9)])
    assert equal(folded, made(3)) and equal(folded, made(11))
    loops = [item for item in folded.program.roles[0].body if isinstance(item, ir.Loop)]
    assert [len(loop.body) for loop in loops] == [5]


def test_rounds_are_whole_trips_where_a_trip_repeats_itself():
    """Engines decide no loop of two rounds a trip for any number."""

    def made(trips: int) -> Recorded:
        return straight(trips, *(meet(line) for _ in range(trips) for line in (1, 2)))

    folded = fold([made(trips) for trips in range(5, 9)])
    (loop,) = folded.program.roles[0].body
    assert isinstance(loop, ir.Loop) and len(loop.body) == 2
    assert equal(folded, made(12))


def test_operations_that_only_a_queue_counts_stay_in_the_file():
    """What they touch concerns nobody; a wait that leaves two in flight counts them."""

    def made(trips: int) -> Recorded:
        rounds: list[ir.Operation] = []
        for _ in range(trips):
            rounds += [
                ir.Asynchronous((ir.Effect("shared+0x0..0xf", ir.ZERO, True),), "vmcnt"),
                ir.Asynchronous((), "vmcnt"),
                ir.QueueWait("vmcnt", ir.ONE),
                meet(3),
            ]
        recorded = straight(trips, *rounds, ir.QueueWait("vmcnt"))
        queue = ir.Queue("vmcnt", grouped=False, pipelined=True)
        return Recorded(trips, replace(recorded.program, queues=(queue,)))

    items = [made(trips) for trips in (*range(5, 9), 2, 11)]
    lifted = lift_recordings(items, range(5, 9), Heading("k", "gfx950", "k.s"), lambda _: "")
    assert lifted.compared == (2, 11)
    text = lifted.text
    assert "untracked: {space: global}" in text and "reads: [untracked]" in text
    assert text.count("leaving: 1") == 1
