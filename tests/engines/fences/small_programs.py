"""Straight-line sync programs that a litmus test can express, and that litmus test.

One CTA, two or three agents, two shared cells, each a buffer of its own. A program is drawn as a
script in which every wait comes after what it waits for, so nothing blocks for ever; each mbarrier
and each named barrier is used for one phase. Expressible in both: generic accesses, bulk loads that
complete on an mbarrier, bulk stores and wgmma operand reads with their groups, proxy fences, tensor
maps. What the two are asked is the same: is there a pair of conflicting accesses to a cell that
nothing orders, or that is ordered without the proxy fence it needs?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from titan.litmus.language import ast
from titan.litmus.model.options import FenceRule, ModelOptions, WarPolicy
from titan.sync import program as ir
from titan.sync.expression import Constant

BYTES = 16
CELLS = ("a", "c")
PLACE = ast.ThreadPlacement(0, 0, 0)


@dataclass(slots=True)
class Script:
    """What each agent does, in both languages, and the objects in use."""

    agents: int
    sync: list[list[ir.Operation]] = field(default_factory=list)
    litmus: list[list[ast.LitmusInstruction]] = field(default_factory=list)
    mbarriers: list[tuple[str, int]] = field(default_factory=list)
    named: int = 0
    targets: int = 0
    registers: int = 0
    maps: bool = False

    def __post_init__(self) -> None:
        self.sync = [[] for _ in range(self.agents)]
        self.litmus = [[] for _ in range(self.agents)]

    def add(
        self, agent: int, operation: ir.Operation, *instructions: ast.LitmusInstruction
    ) -> None:
        self.sync[agent].append(operation)
        self.litmus[agent] += instructions

    def register(self) -> str:
        self.registers += 1
        return f"r{self.registers}"

    def mbarrier(self, count: int) -> str:
        self.mbarriers.append((f"b{len(self.mbarriers)}", count))
        return self.mbarriers[-1][0]


def _effect(cell: str, write: bool, proxy: ir.Proxy = ir.Proxy.GENERIC) -> ir.Effect:
    return ir.Effect(cell, write=write, proxy=proxy)


def generic(script: Script, random: Random, agent: int, cell: str | None = None) -> None:
    cell = cell or random.choice(CELLS)
    write = random.random() < 0.5
    operation = ir.Access((_effect(cell, write),))
    made: ast.LitmusInstruction = (
        ast.Store(cell, 1 + script.registers % 3) if write else ast.Load(script.register(), cell)
    )
    script.registers += write
    script.add(agent, operation, made)


def fence(script: Script, random: Random, agent: int) -> None:
    space = random.choice(((ir.Space.SHARED,), (ir.Space.SHARED,), (), (ir.Space.GLOBAL,)))
    limit = {(): None, (ir.Space.SHARED,): ast.Space.SHARED}.get(space, ast.Space.GLOBAL)
    operation = ir.Fence(ir.FenceKind.ASYNC, space)
    script.add(agent, operation, ast.ProxyFence(ast.Proxy.ASYNC, space=limit))


def half(script: Script, agent: int, direction: ast.Direction) -> None:
    """One half of a one-way fence; the release is for the own CTA, the acquire for the cluster."""
    release = direction is ast.Direction.RELEASE
    kind = ir.FenceKind.ASYNC_RELEASE if release else ir.FenceKind.ASYNC_ACQUIRE
    space = ast.Space.OWN_SHARED if release else ast.Space.SHARED
    made = ast.ProxyFence(ast.Proxy.ASYNC, direction, ast.Scope.CLUSTER, space)
    script.add(agent, ir.Fence(kind), made)


def either_half(script: Script, random: Random, agent: int) -> None:
    half(script, agent, random.choice((ast.Direction.RELEASE, ast.Direction.ACQUIRE)))


def _arrive(script: Script, agent: int, barrier: str, size: int = 0) -> None:
    operation = ir.Arrive(ir.Reference(barrier), transaction=Constant(size))
    script.add(agent, operation, ast.MbarrierArrive(barrier, expect=size))


def _wait(script: Script, agent: int, barrier: str) -> None:
    operation = ir.Wait(ir.Reference(barrier), Constant(0), Constant(0))
    script.add(agent, operation, ast.MbarrierWait(barrier, 0))


def hand_over(script: Script, random: Random, agent: int) -> None:
    """The agent arrives; some others wait."""
    others = [n for n in range(script.agents) if n != agent]
    barrier = script.mbarrier(1)
    _arrive(script, agent, barrier)
    for other in random.sample(others, random.randint(1, len(others))):
        _wait(script, other, barrier)


def meet(script: Script, random: Random, agent: int) -> None:
    """All agents synchronise at a named barrier."""
    del random, agent
    script.named += 1
    number = Constant(script.named - 1)
    for n in range(script.agents):
        operation = ir.BarrierSync(ir.Reference("ids", number), Constant(32 * script.agents))
        script.add(n, operation, ast.Barrier(script.named, count=script.agents))


def chain(script: Script, random: Random, agent: int) -> None:
    """A generic access, mostly a fence, a hand-over, and an asynchronous access to the cell."""
    cell = random.choice(CELLS)
    generic(script, random, agent, cell)
    one_way = random.random() < 0.3
    if one_way and random.random() < 0.85:
        half(script, agent, ast.Direction.RELEASE)
    elif not one_way and random.random() < 0.6:
        fence(script, random, agent)
    issuer = random.randrange(script.agents)
    if issuer != agent and random.random() < 0.9:
        barrier = script.mbarrier(1)
        _arrive(script, agent, barrier)
        _wait(script, issuer, barrier)
    if one_way and random.random() < 0.85:
        half(script, issuer, ast.Direction.ACQUIRE)
    if random.random() < 0.2:
        fence(script, random, issuer)
    random.choice((load, store, matrix))(script, random, issuer, cell=cell)


def load(
    script: Script, random: Random, agent: int, mapped: bool = False, cell: str | None = None
) -> None:
    """A bulk load into a cell; some agents wait for it."""
    cell = cell or random.choice(CELLS)
    barrier = script.mbarrier(1)
    _arrive(script, agent, barrier, BYTES)
    effects = [_effect(cell, True, ir.Proxy.ASYNC)]
    if mapped:
        effects.append(_effect("m", False, ir.Proxy.TENSORMAP))
    done = (ir.Completion(ir.Reference(barrier), Constant(BYTES)),)
    operation = ir.Asynchronous(tuple(effects), completes=done)
    source, descriptor = (None, "m") if mapped else ("g", None)
    script.add(agent, operation, ast.BulkCopy((cell,), source, (barrier,), descriptor, BYTES))
    for other in range(script.agents):
        if random.random() < 0.6:
            _wait(script, other, barrier)


def store(script: Script, random: Random, agent: int, cell: str | None = None) -> None:
    """A bulk store from a cell; mostly waited for."""
    cell = cell or random.choice(CELLS)
    script.targets += 1
    operation = ir.Asynchronous((_effect(cell, False, ir.Proxy.ASYNC),), "bulk")
    script.add(agent, operation, ast.BulkCopy((f"h{script.targets}",), cell, size=BYTES))
    script.add(agent, ir.Commit("bulk"), ast.CommitGroup(ast.GroupKind.BULK))
    if random.random() < 0.7:
        until = random.choice((ir.Until.DONE, ir.Until.READ))
        read = until is ir.Until.READ
        made = ast.WaitGroup(ast.GroupKind.BULK, 0, read)
        script.add(agent, ir.QueueWait("bulk", Constant(0), until), made)


def matrix(script: Script, random: Random, agent: int, cell: str | None = None) -> None:
    """A wgmma that reads a cell; mostly waited for."""
    cell = cell or random.choice(CELLS)
    operation = ir.Asynchronous((_effect(cell, False, ir.Proxy.ASYNC),), "group")
    script.add(agent, operation, ast.MatrixRead(script.register(), cell))
    script.add(agent, ir.Commit("group"), ast.CommitGroup(ast.GroupKind.WGMMA))
    if random.random() < 0.7:
        script.add(agent, ir.QueueWait("group"), ast.WaitGroup(ast.GroupKind.WGMMA))


def map_write(script: Script, random: Random, agent: int) -> None:
    """The tensor map is written, and mostly released and acquired somewhere on the way."""
    script.maps = True
    script.add(agent, ir.Access((_effect("m", True),)), ast.Store("m", 2))
    if random.random() < 0.3:  # a fence for the other proxy neither helps nor harms
        script.add(agent, ir.Fence(ir.FenceKind.ASYNC), ast.ProxyFence(ast.Proxy.ASYNC))
    if random.random() < 0.8:
        made = ast.ProxyFence(ast.Proxy.TENSORMAP, ast.Direction.RELEASE, ast.Scope.GPU)
        script.add(agent, ir.Fence(ir.FenceKind.TENSORMAP_RELEASE), made)
    other = random.randrange(script.agents)
    if other != agent:
        barrier = script.mbarrier(1)
        _arrive(script, agent, barrier)
        _wait(script, other, barrier)
    if random.random() < 0.8:
        made = ast.ProxyFence(
            ast.Proxy.TENSORMAP, ast.Direction.ACQUIRE, ast.Scope.GPU, location="m"
        )
        script.add(other, ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE), made)
    load(script, random, other, mapped=True)


ACTIONS = (generic, generic, fence, fence, either_half, hand_over, hand_over, meet, meet, load,
           store, matrix, chain)  # fmt: skip


def draw(random: Random) -> Script:
    """A random script of a few actions."""
    script = Script(random.choice((2, 2, 3)))
    if random.random() < 0.2:
        map_write(script, random, random.randrange(script.agents))
    if random.random() < 0.7:
        chain(script, random, random.randrange(script.agents))
    for _ in range(random.randint(1, 6)):
        random.choice(ACTIONS)(script, random, random.randrange(script.agents))
    return script


def sync_program(script: Script, policies: ir.Policies) -> ir.SyncProgram:
    """The script as a sync program."""
    buffers = [ir.Buffer(cell, initial=0) for cell in CELLS]
    buffers.append(ir.Buffer("m", space=ir.Space.GLOBAL, initial=0))
    return ir.SyncProgram(
        "small",
        "sm_90a",
        tuple(ir.Role(f"p{n}", tuple(body)) for n, body in enumerate(script.sync)),
        barriers=tuple(ir.Barrier(name, count) for name, count in script.mbarriers),
        named_barriers=(ir.NamedBarrier("ids", max(1, script.named)),),
        buffers=tuple(buffers),
        queues=(ir.Queue("bulk"), ir.Queue("group", pipelined=True)),
        policies=policies,
    )


def litmus_test(script: Script) -> ast.LitmusTest:
    """The script as a litmus test that asks for a race on any cell."""
    shared = ast.Space.SHARED
    locations = [ast.Location(cell, space=shared, home=PLACE) for cell in CELLS]
    locations += [ast.Location("g", 9)]
    locations += [ast.Location("m", 1)] if script.maps else []
    locations += [ast.Location(f"h{n + 1}") for n in range(script.targets)]
    locations += [
        ast.Location(name, space=shared, home=PLACE, count=count)
        for name, count in script.mbarriers
    ]
    threads = tuple(
        ast.LitmusThread(f"P{n}", PLACE, tuple(body)) for n, body in enumerate(script.litmus)
    )
    asked = tuple(ast.Race(name) for name in (*CELLS, *(("m",) if script.maps else ())))
    condition = ast.Connective("or", asked)
    return ast.LitmusTest("small", tuple(locations), threads, ast.Quantifier.EXISTS, condition)


def options(policies: ir.Policies) -> ModelOptions:
    """The reading of the memory model that corresponds to the policies."""
    rule = FenceRule.PATH if policies.fence_rule == "path" else FenceRule.WRITER
    return ModelOptions(rule, WarPolicy.FENCE if policies.war_fence else WarPolicy.SYNC)
