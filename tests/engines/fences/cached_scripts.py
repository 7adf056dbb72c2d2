"""Straight-line programs with cached proxies, as sync programs and as litmus tests.

One or two CTAs, two or three agents, one cell of global memory, which is also a tensor map. Every
wait comes after what it waits for, so nothing blocks for ever. Expressible in both: accesses
through the generic, constant, texture, surface and async proxies, uses of the map, the fences of
all of them, hand-overs by mbarriers of the waiting CTA.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from titan.litmus.language import ast
from titan.sync import program as ir
from titan.sync.expression import Constant

BYTES = 16
CACHED = tuple(ir.CACHED)
FENCES = {proxy: kind for kind, proxy in ir.CACHED_FENCES.items()}
FAR = ir.Scope.CLUSTER


@dataclass(slots=True)
class Script:
    """What each agent does, in both languages; `ctas` of the agents.

    Engines use the cell from CTA `home` alone. Fences that let them in are executed there where
    the sync level does not ask where they are (an acquire half; by the path rule, any).
    """

    ctas: tuple[int, ...]
    home: int = 0
    path: bool = False
    sync: list[list[ir.Operation]] = field(default_factory=list)
    litmus: list[list[ast.LitmusInstruction]] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    sinks: list[int] = field(default_factory=list)
    registers: int = 0

    def __post_init__(self) -> None:
        self.sync = [[] for _ in self.ctas]
        self.litmus = [[] for _ in self.ctas]

    def add(
        self, agent: int, operation: ir.Operation, *instructions: ast.LitmusInstruction
    ) -> None:
        self.sync[agent].append(operation)
        self.litmus[agent] += instructions

    def barrier(self, cta: int) -> str:
        self.barriers.append(cta)
        return f"b{len(self.barriers) - 1}"

    def sink(self, cta: int) -> str:
        """Shared memory of its own for one copy."""
        self.sinks.append(cta)
        return f"s{len(self.sinks) - 1}"


def access(script: Script, random: Random, agent: int, proxy: ir.Proxy) -> None:
    """A synchronous access of the cell."""
    write = proxy in (ir.Proxy.GENERIC, ir.Proxy.SURFACE) and random.random() < 0.5
    script.registers += 1
    view = "x" if proxy is ir.Proxy.GENERIC else f"x_{proxy.value}"
    through = ast.Proxy(proxy.value)
    made: ast.LitmusInstruction = ast.Load(f"r{script.registers}", view, proxy=through)
    if write:
        made = ast.Store(view, 1 + script.registers % 3, proxy=through)
    script.add(agent, ir.Access((ir.Effect("x", write=write, proxy=proxy),)), made)


def copy(script: Script, random: Random, agent: int, proxy: ir.Proxy) -> None:
    """A bulk copy that writes or reads the cell, or uses it as its map; mostly waited for."""
    own = script.ctas[agent]
    sink = script.sink(own)
    if proxy is ir.Proxy.ASYNC and random.random() < 0.5:
        effect = ir.Effect("x", write=True, proxy=ir.Proxy.ASYNC)
        script.add(
            agent, ir.Asynchronous((effect,), "bulk"), ast.BulkCopy(("x",), sink, size=BYTES)
        )
        script.add(agent, ir.Commit("bulk"), ast.CommitGroup(ast.GroupKind.BULK))
        if random.random() < 0.9:
            until = random.choice((ir.Until.DONE, ir.Until.DONE, ir.Until.READ))
            made = ast.WaitGroup(ast.GroupKind.BULK, 0, until is ir.Until.READ)
            script.add(agent, ir.QueueWait("bulk", Constant(0), until), made)
        return
    barrier = script.barrier(own)
    arrive = ir.Arrive(ir.Reference(barrier), transaction=Constant(BYTES))
    script.add(agent, arrive, ast.MbarrierArrive(barrier, expect=BYTES))
    effects = (ir.Effect("x", proxy=proxy), ir.Effect(sink, write=True, proxy=ir.Proxy.ASYNC))
    done = (ir.Completion(ir.Reference(barrier), Constant(BYTES)),)
    source, descriptor = ("x", None) if proxy is ir.Proxy.ASYNC else (None, "x")
    made_copy = ast.BulkCopy((sink,), source, (barrier,), descriptor, BYTES)
    script.add(agent, ir.Asynchronous(effects, completes=done), made_copy)
    for other, cta in enumerate(script.ctas):
        if cta == own and random.random() < (0.9 if other == agent else 0.4):
            wait = ir.Wait(ir.Reference(barrier), Constant(0), Constant(0))
            script.add(other, wait, ast.MbarrierWait(barrier, 0))


def fence(script: Script, random: Random, agent: int, proxy: ir.Proxy) -> None:
    """The fence of a proxy; of the map, one of its halves or both."""
    if proxy is ir.Proxy.GENERIC:
        return
    if proxy is ir.Proxy.TENSORMAP:
        for half in random.choice((("release",), ("acquire",), ("release", "acquire"))):
            if half == "acquire" and script.ctas[agent] != script.home:
                continue
            kind = ir.FenceKind(f"proxy.tensormap.{half}")
            direction = ast.Direction(half)
            place = "x" if direction is ast.Direction.ACQUIRE else None
            scope = ast.Scope.GPU
            made = ast.ProxyFence(ast.Proxy.TENSORMAP, direction, scope, location=place)
            script.add(agent, ir.Fence(kind), made)
        return
    if proxy is ir.Proxy.ASYNC and script.path and script.ctas[agent] != script.home:
        return
    kind = ir.FenceKind.ASYNC if proxy is ir.Proxy.ASYNC else FENCES[proxy]
    script.add(agent, ir.Fence(kind), ast.ProxyFence(ast.Proxy(proxy.value)))


def hand_over(script: Script, agent: int, other: int) -> None:
    """One agent arrives, at a barrier of the CTA of the one that waits."""
    barrier = script.barrier(script.ctas[other])
    arrive = ir.Arrive(ir.Reference(barrier), scope=FAR)
    script.add(agent, arrive, ast.MbarrierArrive(barrier, scope=ast.Scope.CLUSTER))
    wait = ir.Wait(ir.Reference(barrier), Constant(0), Constant(0), scope=FAR)
    script.add(other, wait, ast.MbarrierWait(barrier, 0, scope=ast.Scope.CLUSTER))


_PROXIES = (ir.Proxy.GENERIC, ir.Proxy.GENERIC, *CACHED, ir.Proxy.SURFACE, ir.Proxy.SURFACE)


def draw(random: Random, path: bool = False) -> Script:
    """A few accesses one after the other, with fences and hand-overs of which some are wrong.

    The cell is reached by bulk copies of one CTA, or it is a map of one, or neither: between two
    CTAs through one of these proxies, and between the two, the levels differ by intent.
    """
    agents = random.choice((1, 2, 2, 3))
    ctas = (0, *(random.choice((0, 0, 1)) for _ in range(agents - 1)))
    script = Script(ctas, random.choice(ctas), path)
    engine = random.choice((ir.Proxy.ASYNC, ir.Proxy.ASYNC, ir.Proxy.TENSORMAP))
    last: tuple[int, ir.Proxy] | None = None
    for _ in range(random.choice((2, 2, 3, 3, 4))):
        agent, proxy = random.randrange(agents), random.choice((*_PROXIES, engine, engine))
        if proxy is engine and ctas[agent] != script.home:
            proxy = ir.Proxy.TEXTURE
        if last is not None:
            _between(script, random, last, (agent, proxy))
        made = copy if proxy in (ir.Proxy.ASYNC, ir.Proxy.TENSORMAP) else access
        made(script, random, agent, proxy)
        last = (agent, proxy)
    return script


def _between(
    script: Script, random: Random, last: tuple[int, ir.Proxy], new: tuple[int, ir.Proxy]
) -> None:
    """Fences of both proxies around a hand-over; at times by others, of others, or none."""
    for who, proxy in (last, new):
        if who != last[0] and random.random() < 0.9:
            hand_over(script, last[0], who)
        if random.random() < 0.2:
            continue
        wrong = random.random() < 0.2
        meant = random.choice((*_PROXIES, ir.Proxy.ASYNC, ir.Proxy.TENSORMAP)) if wrong else proxy
        _fence_by_someone(script, random, who, meant)


def _fence_by_someone(script: Script, random: Random, who: int, proxy: ir.Proxy) -> None:
    """The agent executes the fence; at times another one does, mostly in the agent's order."""
    executes = who if random.random() < 0.8 else random.randrange(len(script.ctas))
    handed = executes != who and random.random() < 0.7
    if handed:
        hand_over(script, who, executes)
    fence(script, random, executes, proxy)
    if proxy is ir.Proxy.TENSORMAP and random.random() < 0.5:
        fence(script, random, executes, proxy)
    if handed:
        hand_over(script, executes, who)


def sync_program(script: Script, policies: ir.Policies) -> ir.SyncProgram:
    buffers = [ir.Buffer("x", space=ir.Space.GLOBAL, initial=0)]
    buffers += [ir.Buffer(f"s{n}", initial=0, cta=cta) for n, cta in enumerate(script.sinks)]
    return ir.SyncProgram(
        "cached",
        "sm_90a",
        tuple(
            ir.Role(f"p{n}", tuple(body), cta=script.ctas[n]) for n, body in enumerate(script.sync)
        ),
        barriers=tuple(ir.Barrier(f"b{n}", 1, cta=cta) for n, cta in enumerate(script.barriers)),
        buffers=tuple(buffers),
        queues=(ir.Queue("bulk"),),
        policies=policies,
    )


def place(cta: int) -> ast.ThreadPlacement:
    return ast.ThreadPlacement(0, 0, cta)


def litmus_test(script: Script) -> ast.LitmusTest:
    """The script as a litmus test that asks for a race on the cell."""
    shared = ast.Space.SHARED
    locations = [ast.Location("x")]
    locations += [
        ast.Location(f"x_{proxy.value}", proxy=ast.Proxy(proxy.value), alias_of="x")
        for proxy in CACHED
    ]
    locations += [
        ast.Location(f"s{n}", space=shared, home=place(cta)) for n, cta in enumerate(script.sinks)
    ]
    locations += [
        ast.Location(f"b{n}", space=shared, home=place(cta), count=1)
        for n, cta in enumerate(script.barriers)
    ]
    threads = tuple(
        ast.LitmusThread(f"P{n}", place(script.ctas[n]), tuple(body))
        for n, body in enumerate(script.litmus)
    )
    return ast.LitmusTest("cached", tuple(locations), threads, ast.Quantifier.EXISTS, ast.Race("x"))
