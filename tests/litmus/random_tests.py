"""Random litmus tests, small enough for the explicit engine."""

from __future__ import annotations

from hypothesis import strategies as st

from titan.litmus.language import ast
from titan.litmus.language.ast import (
    PTX_SCOPES,
    Compare,
    Connective,
    Direction,
    FinalMemory,
    FinalRegister,
    GroupKind,
    LitmusTest,
    LitmusThread,
    Location,
    Proxy,
    Quantifier,
    Register,
    Scope,
    Semantics,
    Space,
    ThreadPlacement,
)
from titan.litmus.language.text import defined_registers
from titan.litmus.model.options import FenceRule, InitRule, ModelOptions, WarPolicy

PLACES = (
    ThreadPlacement(0, 1000, 0),
    ThreadPlacement(0, 1000, 1),
    ThreadPlacement(0, 1002, 2),
    ThreadPlacement(1, 1003, 3),
)
SCOPES = st.sampled_from(PTX_SCOPES)


def options() -> st.SearchStrategy[ModelOptions]:
    return st.builds(
        ModelOptions,
        st.sampled_from(list(FenceRule)),
        st.sampled_from(list(WarPolicy)),
        st.sampled_from(list(InitRule)),
    )


LOCATIONS = (
    Location("x"),
    Location("y"),
    Location("z", alias_of="x"),
    Location("s", proxy=Proxy.SURFACE, alias_of="x"),
    Location("t", proxy=Proxy.TEXTURE, alias_of="z"),
    Location("a", space=Space.SHARED, home=PLACES[0]),
    Location("c", space=Space.SHARED, home=PLACES[1]),
    Location("b", count=1, space=Space.SHARED, home=PLACES[0]),
)
PLAIN = st.sampled_from(["x", "x", "y", "y", "z", "a"])
TILES = st.sampled_from(["x", "a", "a", "c"])
LEFT = st.sampled_from([0, 1, 2, 3])  # groups that a wait leaves, also more than there are


@st.composite
def plain_instruction(draw, register: str) -> ast.LitmusInstruction:
    """Loads, stores, atomics and fences of the classical model."""
    location = draw(PLAIN)
    kind = draw(st.sampled_from(["load", "load", "store", "store", "atomic", "fence", "sc"]))
    scope = draw(SCOPES)
    if kind == "load":
        semantics = draw(st.sampled_from([Semantics.WEAK, Semantics.RELAXED, Semantics.ACQUIRE]))
        return ast.Load(register, location, semantics, scope if semantics != "weak" else None)
    if kind == "store":
        semantics = draw(st.sampled_from([Semantics.WEAK, Semantics.RELAXED, Semantics.RELEASE]))
        value = draw(st.sampled_from([1, 2, Register(register[:-1] + "0")]))
        return ast.Store(location, value, semantics, scope if semantics != "weak" else None)
    if kind == "atomic":
        operation = draw(st.sampled_from(["exch", "add", "cas"]))
        operands = (0, 2) if operation == "cas" else (draw(st.integers(1, 2)),)
        semantics = draw(
            st.sampled_from(
                [Semantics.RELAXED, Semantics.ACQUIRE, Semantics.RELEASE, Semantics.ACQ_REL]
            )
        )
        destination = None if draw(st.booleans()) and operation != "cas" else register
        return ast.Atomic(operation, location, operands, semantics, scope, destination)
    if kind == "fence":
        return ast.Fence(
            draw(st.sampled_from([Semantics.ACQ_REL, Semantics.ACQUIRE, Semantics.RELEASE])), scope
        )
    return ast.Fence(Semantics.SC, scope)


@st.composite
def proxy_instruction(draw, register: str) -> ast.LitmusInstruction:
    """Accesses through constant, texture and surface views, and the fences between proxies."""
    kind = draw(st.sampled_from(["suld", "tld", "sust", "fence", "alias"]))
    if kind == "suld":
        return ast.Load(register, "s", proxy=Proxy.SURFACE)
    if kind == "tld":
        return ast.Load(register, "t", proxy=Proxy.TEXTURE)
    if kind == "sust":
        return ast.Store("s", draw(st.integers(1, 2)), proxy=Proxy.SURFACE)
    if kind == "alias":
        return ast.AliasFence()
    return ast.ProxyFence(draw(st.sampled_from([Proxy.SURFACE, Proxy.TEXTURE])))


@st.composite
def async_instructions(draw, register: str) -> list[ast.LitmusInstruction]:
    """Bulk copies, matrix reads, non-bulk copies, and what completes or fences them."""
    kind = draw(
        st.sampled_from(
            ["load", "store", "copy", "wgmma", "tcgen05", "fence", "halves", "map", "use"]
        )
    )
    if draw(st.integers(0, 3)) == 0:
        return draw(rarer_instructions(register))
    if kind == "load":
        return [ast.BulkCopy((draw(TILES),), draw(TILES), ("b",))]
    if kind == "store":
        wait = ast.WaitGroup(GroupKind.BULK, 0, draw(st.booleans()))
        return [ast.BulkCopy((draw(TILES),), draw(TILES)), ast.CommitGroup(GroupKind.BULK), wait]
    if kind == "copy":
        done = draw(
            st.sampled_from(
                [
                    [ast.CommitGroup(GroupKind.COPY), ast.WaitGroup(GroupKind.COPY, 0)],
                    [ast.WaitGroup(GroupKind.COPY, 0, commits=True)],
                    [ast.CommitGroup(GroupKind.COPY), ast.WaitGroup(GroupKind.COPY, draw(LEFT))],
                    [ast.AsyncCopyArrive("b", True)],
                    [ast.AsyncCopyArrive("b", False)],
                ]
            )
        )
        return [ast.AsyncCopy(draw(TILES), draw(TILES)), *done]
    if kind == "wgmma":
        end = [ast.CommitGroup(GroupKind.WGMMA), ast.WaitGroup(GroupKind.WGMMA, 0)]
        return [ast.MatrixRead(register, draw(TILES)), *end]
    if kind == "tcgen05":
        return [ast.MatrixRead(register, "a", tensor_memory=True), ast.TensorCommit("b")]
    if kind == "fence":
        space = draw(st.sampled_from([None, *Space]))
        return [ast.ProxyFence(Proxy.ASYNC, space=space)]
    if kind == "halves":
        direction = draw(st.sampled_from([Direction.RELEASE, Direction.ACQUIRE]))
        return [
            ast.ProxyFence(
                Proxy.ASYNC,
                direction,
                Scope.CLUSTER,
                draw(st.sampled_from([Space.SHARED, Space.OWN_SHARED])),
            )
        ]
    if kind == "map":
        direction = draw(st.sampled_from([Direction.RELEASE, Direction.ACQUIRE]))
        named = "y" if direction is Direction.ACQUIRE else None
        return [
            ast.ProxyFence(Proxy.TENSORMAP, direction, draw(SCOPES), None, named),
            *draw(st.sampled_from([[], [ast.BulkCopy(("a",), None, ("b",), "y")]])),
        ]
    return [ast.Load(register, draw(TILES))]


@st.composite
def rarer_instructions(draw, register: str) -> list[ast.LitmusInstruction]:
    """Asynchronous stores, bulk reductions, restricted fences, the half for reads, descriptors."""
    kind = draw(st.sampled_from(["sent", "reduce", "reduce", "restricted", "read half", "edit"]))
    if kind == "sent":
        operation = draw(st.sampled_from([None, None, "add", "max"]))
        return [ast.AsyncStore(draw(TILES), draw(st.integers(1, 2)), "b", 16, operation)]
    if kind == "reduce":
        tiles, barriers = (draw(TILES),), draw(st.sampled_from([(), ("b",)]))
        wait = ast.WaitGroup(GroupKind.BULK, 0, draw(st.booleans()))
        done = [] if barriers else [ast.CommitGroup(GroupKind.BULK), wait]
        operation = draw(st.sampled_from(["add", "max"]))
        return [ast.BulkCopy(tiles, draw(TILES), barriers, reduction=operation), *done]
    if kind == "restricted":
        fence = draw(
            st.sampled_from(
                [
                    ast.Fence(Semantics.RELEASE, Scope.CLUSTER, Space.OWN_SHARED),
                    ast.Fence(Semantics.ACQUIRE, Scope.CLUSTER, Space.SHARED),
                ]
            )
        )
        return [fence]
    if kind == "edit":
        return [ast.DescriptorCopy("y", draw(TILES), draw(SCOPES))]
    half = ast.ProxyFence(
        Proxy.ASYNC, Direction.RELEASE, Scope.CLUSTER, Space.SHARED, reads_only=True
    )
    return [half, *draw(st.sampled_from([[], [ast.Load(register, "a")]]))]


@st.composite
def meeting_instruction(draw) -> ast.LitmusInstruction:
    """Barriers of all three kinds but the cluster barrier, which comes in matched pairs."""
    kind = draw(st.sampled_from(["sync", "sync", "arrive", "mbar", "expect", "wait", "test"]))
    scope = draw(st.sampled_from([Scope.CTA, Scope.CLUSTER]))
    if kind in ("sync", "arrive"):
        return ast.Barrier(draw(st.integers(0, 1)), kind == "sync")
    if kind == "mbar":
        semantics = draw(st.sampled_from([Semantics.RELEASE, Semantics.RELAXED]))
        return ast.MbarrierArrive("b", semantics, scope, 1, draw(st.sampled_from([0, 16])))
    if kind == "expect":
        return ast.MbarrierExpect("b", 16)
    semantics = draw(st.sampled_from([Semantics.ACQUIRE, Semantics.RELAXED]))
    return ast.MbarrierWait("b", 0, semantics, scope, "p" if kind == "test" else None)


@st.composite
def litmus_tests(draw, family: str) -> LitmusTest:
    """A test of two or three threads; `family` is plain, proxy, barrier or async."""
    count = draw(st.integers(2, 3 if family in ("plain", "proxy") else 2))
    threads = []
    for number in range(count):
        code: list[ast.LitmusInstruction] = []
        for position in range(draw(st.integers(1, 4 if count == 2 and family != "async" else 3))):
            register = f"r{position}"
            code += _instructions(draw, family, register)
        if draw(st.booleans()) and family in ("barrier", "async"):
            at = draw(st.integers(0, len(code)))
            code[at:at] = [
                ast.ClusterBarrier(
                    False, draw(st.sampled_from([Semantics.RELEASE, Semantics.RELAXED]))
                ),
                ast.ClusterBarrier(True, Semantics.ACQUIRE),
            ]
        threads.append(LitmusThread(f"P{number}", draw(st.sampled_from(PLACES)), tuple(code)))
    return LitmusTest(
        "random", LOCATIONS, tuple(threads), Quantifier.EXISTS, _condition(draw, threads)
    )


def _instructions(draw, family: str, register: str) -> list[ast.LitmusInstruction]:
    if family == "plain":
        return [draw(plain_instruction(register))]
    if family == "proxy":
        return [draw(st.one_of(plain_instruction(register), proxy_instruction(register)))]
    if family == "barrier":
        return [draw(st.one_of(plain_instruction(register), meeting_instruction()))]
    choice = draw(st.integers(0, 3))
    if choice < 2:
        return draw(async_instructions(register))
    if choice == 2:
        return [draw(meeting_instruction())]
    location = draw(TILES)
    if draw(st.booleans()):
        return [ast.Store(location, draw(st.integers(1, 2)))]
    return [ast.Load(register, location)]


def _condition(draw, threads: list[LitmusThread]) -> ast.Condition:
    parts: list[ast.Condition] = []
    for thread in threads:
        for register in defined_registers(thread):
            if draw(st.integers(0, 2)):
                term = FinalRegister(thread.name, register)
                parts.append(Compare(term, "==", draw(st.integers(0, 2))))
    extra = draw(st.integers(0, 5))
    if extra == 0:
        parts.append(Compare(FinalMemory("x"), "==", draw(st.integers(0, 2))))
    elif extra == 1:
        parts.append(ast.Race(draw(st.sampled_from(["x", "a"]))))
    return Connective("and", tuple(parts))
