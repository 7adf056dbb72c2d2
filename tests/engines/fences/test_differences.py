"""Each deliberate difference between the graph and the memory model, shown on one program.

The table stands in docs/explanation/proxies.md. If one of these tests fails, the two have moved
towards each other, and the table is to be changed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.engines.fences import cached_scripts
from tests.engines.fences.small_programs import (
    BYTES,
    PLACE,
    Script,
    half,
    litmus_test,
    options,
    sync_program,
)
from titan.engines.fences.justify import judge
from titan.engines.happens_before.engine import analyse
from titan.litmus.decide import decide
from titan.litmus.language import ast
from titan.litmus.model.options import FenceRule, InitRule, ModelOptions
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.fault import FaultKind

LENIENT = ir.Policies(exit_in_flight="allow")
ASYNC_FENCE = ir.Fence(ir.FenceKind.ASYNC, (ir.Space.SHARED,))
ASYNC_INSTRUCTION = ast.ProxyFence(ast.Proxy.ASYNC, space=ast.Space.SHARED)
OTHER_CTA = ast.ThreadPlacement(0, 0, 1)


def _access(cell: str, write: bool, proxy: ir.Proxy = ir.Proxy.GENERIC) -> ir.Effect:
    return ir.Effect(cell, write=write, proxy=proxy)


def _write(script: Script, agent: int, cell: str) -> None:
    script.add(agent, ir.Access((_access(cell, True),)), ast.Store(cell, 1))


def _hand_over(script: Script, scope: ir.Scope = ir.Scope.CTA) -> None:
    """Agent 0 arrives and agent 1 waits."""
    barrier = script.mbarrier(1)
    litmus_scope = ast.Scope(scope.value)
    arrive = ir.Arrive(ir.Reference(barrier), scope=scope)
    wait = ir.Wait(ir.Reference(barrier), Constant(0), Constant(0), scope=scope)
    script.add(0, arrive, ast.MbarrierArrive(barrier, scope=litmus_scope))
    script.add(1, wait, ast.MbarrierWait(barrier, 0, scope=litmus_scope))


def _store(script: Script, agent: int, cell: str) -> None:
    """A bulk store that reads the cell."""
    script.targets += 1
    effects = (_access(cell, False, ir.Proxy.ASYNC),)
    made = ast.BulkCopy((f"h{script.targets}",), cell, size=BYTES)
    script.add(agent, ir.Asynchronous(effects, "bulk"), made)
    script.add(agent, ir.Commit("bulk"), ast.CommitGroup(ast.GroupKind.BULK))


def _answers(script: Script, policies: ir.Policies = LENIENT) -> tuple[set[FaultKind], bool]:
    """What the graph finds, and whether the memory model allows a race."""
    judged = judge(sync_program(script, policies))
    assert judged.reason == ""
    return judged.kinds, bool(decide(litmus_test(script), options(policies)).allowed)


def test_a_write_that_a_read_has_observed() -> None:
    script = Script(1)
    _write(script, 0, "a")
    script.add(0, ir.Access((_access("a", False),)), ast.Load("r0", "a"))
    barrier = script.mbarrier(1)
    arrive = ir.Arrive(ir.Reference(barrier), transaction=Constant(BYTES))
    script.add(0, arrive, ast.MbarrierArrive(barrier, expect=BYTES))
    done = (ir.Completion(ir.Reference(barrier), Constant(BYTES)),)
    load = ir.Asynchronous((_access("a", True, ir.Proxy.ASYNC),), completes=done)
    script.add(0, load, ast.BulkCopy(("a",), "g", (barrier,), size=BYTES))
    relaxed = replace(LENIENT, war_fence=False)
    assert _answers(script, relaxed) == ({FaultKind.MISSING_FENCE}, False)
    assert _answers(script)[1] is True  # with the fence asked for, both refuse


def test_a_second_fence_in_the_other_cta() -> None:
    script = Script(2)
    _write(script, 0, "a")
    script.add(0, ASYNC_FENCE, ASYNC_INSTRUCTION)
    _hand_over(script, ir.Scope.CLUSTER)
    _store(script, 1, "a")
    program = sync_program(script, LENIENT)
    roles = (program.roles[0], replace(program.roles[1], cta=1))
    buffers = tuple(
        replace(item, cta=1) if item.name in ("a", "c") else item for item in program.buffers
    )
    barriers = tuple(replace(item, cta=1) for item in program.barriers)
    judged = judge(replace(program, roles=roles, buffers=buffers, barriers=barriers))
    assert judged.reason == "" and judged.unjustified == []

    strict = options(LENIENT)

    def placed(second: tuple[ast.LitmusInstruction, ...], reading: ModelOptions = strict) -> bool:
        test = litmus_test(script)
        homes = tuple(
            item if item.home is None else replace(item, home=OTHER_CTA) for item in test.locations
        )
        first, other = test.threads
        moved = replace(other, placement=OTHER_CTA, instructions=second)
        # The writer's own fence has to reach the shared memory of the other CTA.
        test = replace(test, locations=homes, threads=(first, moved))
        return bool(decide(test, reading).allowed)

    body = tuple(script.litmus[1])
    assert placed(body) is True
    assert placed(body, replace(strict, fence_rule=FenceRule.WRITER_ALONE)) is False  # they agree
    assert placed((body[0], ASYNC_INSTRUCTION, *body[1:])) is False


def test_a_copy_through_the_generic_proxy_is_fenced_by_anyone() -> None:
    script = Script(2)
    copy = ir.Asynchronous((_access("a", True),), "copy")
    script.add(0, copy, ast.AsyncCopy("a", "g"))
    script.add(0, ir.Commit("copy"), ast.CommitGroup(ast.GroupKind.COPY))
    script.add(0, ir.QueueWait("copy"), ast.WaitGroup(ast.GroupKind.COPY))
    _hand_over(script)
    script.add(1, ASYNC_FENCE, ASYNC_INSTRUCTION)
    _store(script, 1, "a")
    program = sync_program(script, LENIENT)
    program = replace(program, queues=(*program.queues, ir.Queue("copy")))
    assert judge(program).unjustified == []
    assert decide(litmus_test(script), options(LENIENT)).allowed
    path = replace(LENIENT, fence_rule="path")
    assert not decide(litmus_test(script), options(path)).allowed


def test_the_initialisation_of_an_mbarrier() -> None:
    """The defaults differ; with the same reading both ask for the fence."""
    program = ir.SyncProgram(
        "init",
        "sm_90a",
        (
            ir.Role(
                "p0",
                (
                    ir.Init(ir.Reference("b"), Constant(1)),
                    ir.Arrive(ir.Reference("b"), transaction=Constant(BYTES)),
                    ir.Asynchronous(
                        (_access("a", True, ir.Proxy.ASYNC),),
                        completes=(ir.Completion(ir.Reference("b"), Constant(BYTES)),),
                    ),
                ),
            ),
        ),
        barriers=(ir.Barrier("b", 1, initialised=False),),
        buffers=(ir.Buffer("a", initial=0),),
        policies=LENIENT,
    )
    assert judge(program).kinds == {FaultKind.UNPUBLISHED_INIT}
    shared = ast.Space.SHARED
    test = ast.LitmusTest(
        "init",
        (
            ast.Location("a", space=shared, home=PLACE),
            ast.Location("b", space=shared, home=PLACE, count=0),
            ast.Location("g", 9),
        ),
        (
            ast.LitmusThread(
                "P0",
                PLACE,
                (
                    ast.MbarrierInit("b", 1),
                    ast.MbarrierArrive("b", expect=BYTES),
                    ast.BulkCopy(("a",), "g", ("b",), size=BYTES),
                ),
            ),
        ),
        ast.Quantifier.EXISTS,
        ast.Undefined("b"),
    )
    assert decide(test, ModelOptions()).allowed is False
    assert decide(test, ModelOptions(init=InitRule.FENCE)).allowed is True


def _halves_with_relaxed_arrival() -> Script:
    script = Script(2)
    _write(script, 0, "a")
    half(script, 0, ast.Direction.RELEASE)
    barrier = script.mbarrier(1)
    relaxed, order = ast.Semantics.RELAXED, ir.Order.RELAXED
    reference = ir.Reference(barrier)
    script.add(0, ir.Arrive(reference, order=order), ast.MbarrierArrive(barrier, relaxed))
    wait = ir.Wait(reference, Constant(0), Constant(0), order=order)
    script.add(1, wait, ast.MbarrierWait(barrier, 0, relaxed))
    half(script, 1, ast.Direction.ACQUIRE)
    _store(script, 1, "a")
    return script


def test_halves_around_a_relaxed_arrival() -> None:
    """The model lets halves synchronise by themselves; the sync level asks for more."""
    script = _halves_with_relaxed_arrival()
    program = sync_program(script, LENIENT)
    result = analyse(program)
    assert result.fault is not None and result.fault.kind is FaultKind.WEAK_SYNCHRONISATION
    assert judge(program).reason or judge(program).unjustified
    assert not decide(litmus_test(script), options(LENIENT)).allowed


WRITER_ALONE = replace(options(LENIENT), fence_rule=FenceRule.WRITER_ALONE)


def _global(ctas: tuple[int, ...], *accesses: ir.Proxy, fences: bool = False) -> tuple[bool, bool]:
    """Whether the graph refuses an ordered pair of accesses of a global cell; what the model does.

    Each proxy stands for a copy that uses the cell; the last one of the async proxy writes it.
    """
    script = cached_scripts.Script(ctas)
    last = len(accesses) - 1
    for number, proxy in enumerate(accesses):
        agent = min(number, len(ctas) - 1)
        if number and agent:
            cached_scripts.hand_over(script, 0, agent)
        if number and fences:
            for kind in (ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE):
                direction = ast.Direction(kind.value.rpartition(".")[2])
                place = "x" if direction is ast.Direction.ACQUIRE else None
                scope = ast.Scope.GPU
                made = ast.ProxyFence(ast.Proxy.TENSORMAP, direction, scope, location=place)
                script.add(agent, ir.Fence(kind), made)
        writes = proxy is ir.Proxy.ASYNC and (number == last or fences)
        cached_scripts.copy(script, _Chosen(writes), agent, proxy)
    judged = judge(cached_scripts.sync_program(script, LENIENT))
    assert judged.reason == ""
    model = decide(cached_scripts.litmus_test(script), WRITER_ALONE)
    return bool(judged.unjustified), bool(model.allowed)


class _Chosen(Random):
    """Writes where a copy may choose, and waits for all copies."""

    def __init__(self, writes: bool) -> None:
        super().__init__(0)
        self._draws = [0.0 if writes else 0.6]

    def random(self) -> float:
        return self._draws.pop() if self._draws else 0.0

    def choice(self, seq: Any) -> Any:
        return seq[0]


def test_copies_of_one_global_cell_in_two_ctas() -> None:
    assert _global((0, 0), ir.Proxy.ASYNC, ir.Proxy.ASYNC) == (False, False)
    assert _global((0, 1), ir.Proxy.ASYNC, ir.Proxy.ASYNC) == (False, True)


def test_a_map_in_use_and_an_asynchronous_write_of_it() -> None:
    assert _global((0,), ir.Proxy.TENSORMAP, ir.Proxy.ASYNC) == (False, True)


def test_a_map_that_an_engine_wrote_is_released_by_anyone() -> None:
    assert _global((0,), ir.Proxy.ASYNC, ir.Proxy.TENSORMAP, fences=True) == (False, False)
    assert _global((0, 0), ir.Proxy.ASYNC, ir.Proxy.TENSORMAP, fences=True) == (False, True)


def test_fences_of_global_memory_in_another_cta() -> None:
    """An acquire half, by the path rule any fence, lets in at each CTA; in the model at its own."""
    effect = ir.Access((_access("x", True),))
    release, acquire = ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE
    gpu, both = ast.Scope.GPU, ast.Direction
    script = cached_scripts.Script((0, 1))
    script.add(0, effect, ast.Store("x", 1))
    made = ast.ProxyFence(ast.Proxy.TENSORMAP, both.RELEASE, gpu)
    script.add(0, ir.Fence(release), made)
    made = ast.ProxyFence(ast.Proxy.TENSORMAP, both.ACQUIRE, gpu, location="x")
    script.add(0, ir.Fence(acquire), made)
    cached_scripts.hand_over(script, 0, 1)
    cached_scripts.copy(script, _Chosen(False), 1, ir.Proxy.TENSORMAP)
    assert _asked(script, LENIENT) == (False, True)

    script = cached_scripts.Script((0, 1))
    script.add(0, effect, ast.Store("x", 1))
    cached_scripts.hand_over(script, 0, 1)
    script.add(1, ir.Fence(ir.FenceKind.ASYNC), ast.ProxyFence(ast.Proxy.ASYNC))
    cached_scripts.hand_over(script, 1, 0)
    cached_scripts.copy(script, _Chosen(False), 0, ir.Proxy.ASYNC)
    assert _asked(script, replace(LENIENT, fence_rule="path")) == (False, True)
    assert _asked(script, LENIENT) == (True, True)


def _asked(script: cached_scripts.Script, policies: ir.Policies) -> tuple[bool, bool]:
    judged = judge(cached_scripts.sync_program(script, policies))
    assert judged.reason == ""
    reading = options(policies)
    if reading.fence_rule is FenceRule.WRITER:
        reading = WRITER_ALONE
    model = decide(cached_scripts.litmus_test(script), reading)
    return bool(judged.unjustified), bool(model.allowed)
