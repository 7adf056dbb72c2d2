"""Kernel files become the programs that they say."""

from __future__ import annotations

from typing import Any

import pytest

from titan.foundation.source.span import Span
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.language.protocol import model
from titan.sync import program as ir
from titan.sync.expression import Constant, Name, parse_expression, to_text

HEAD = "titan: 1\nkernel: k\ntarget: sm_90a\n"
THINGS = """\
sizes: {tiles: any, depth: 2}
buffers:
  A: {stages: depth, parts: 2, tile: [8, 8], dtype: bf16}
  G: {space: global, bytes: 64}
  D: {space: global}
barriers: {full: {count: 2, stages: depth}, raw: {count: 1, initialised: false}}
named_barriers: {ids: {stages: 16, threads: 64}, cluster: {scope: cluster}}
queues: {group: wgmma, stores: bulk, counter: vmcnt}
pools: {registers: 100}
roles: {main: {warps: 2, counters: {n: 3}}}
program:
  main:
"""


def kernel_of(text: str, **overrides: tuple[int, ...]) -> Kernel:
    family, errors = decode_text(text, overrides=overrides)
    assert errors == [], [item.headline for item in errors]
    assert family is not None
    return family.kernels[0]


def program_of(text: str, **overrides: tuple[int, ...]) -> ir.SyncProgram:
    program = kernel_of(text, **overrides).program
    assert program is not None
    return program


def operations(*statements: str) -> ir.Block:
    """The operations that statements stand for, with the things above declared."""
    lines = "".join(f"    - {statement}\n" for statement in statements)
    return program_of(HEAD + THINGS + lines).roles[0].body


def at(name: str, index: str = "0") -> ir.Reference:
    return ir.Reference(name, parse_expression(index))


def effect(name: str, stage: str, tile: str | None = None, **more: Any) -> ir.Effect:
    tile_expression = parse_expression(tile) if tile is not None else None
    return ir.Effect(name, parse_expression(stage), tile=tile_expression, **more)


ASYNC = {"proxy": ir.Proxy.ASYNC}
CASES: list[tuple[str, tuple[ir.Operation, ...]]] = [
    ("init: raw", (ir.Init(at("raw"), Constant(1)),)),
    ("{init: raw, count: 3}", (ir.Init(at("raw"), Constant(3)),)),
    ("invalidate: raw", (ir.Invalidate(at("raw")),)),
    ("arrive: full[1]", (ir.Arrive(at("full", "1")),)),
    (
        "arrive: {full[1], count: 2, bytes: 8, drop: true, token: true, order: relaxed}",
        (
            ir.Arrive(
                at("full", "1"), Constant(2), Constant(8), True, True, ir.Order.RELAXED
            ),
        ),
    ),
    ("{expect: full[0], bytes: 16}", (ir.ExpectTransaction(at("full"), Constant(16)),)),
    ("{wait: full[n], parity: n % 2}", (ir.Wait(at("full", "n"), parse_expression("n % 2")),)),
    (
        "{wait: full[0], phase: n}",
        (ir.Wait(at("full"), parse_expression("n % 2"), Name("n")),),
    ),
    ("{wait: full[0], token: true}", (ir.TokenWait(at("full")),)),
    (
        "{wait: [full[0], full[1]], parity: 0}",
        (ir.Wait(at("full"), Constant(0)), ir.Wait(at("full", "1"), Constant(0))),
    ),
    ("sync: ids[3]", (ir.BarrierSync(at("ids", "3"), Constant(64)),)),
    ("{arrive: ids[3], threads: 96}", (ir.BarrierArrive(at("ids", "3"), Constant(96)),)),
    ("wait: cluster", (ir.BarrierWait(at("cluster")),)),
    ("load: A[1] = 5", (ir.Access((effect("A", "1", "5"),)),)),
    (
        "{store: [A[0], A[1, 1]], tile: n}",
        (
            ir.Access(
                (
                    effect("A", "0", "n", write=True),
                    effect("A", "1", "n", write=True, part=Constant(1)),
                )
            ),
        ),
    ),
    (
        "access: {reads: A[0] = 1, writes: A[1] = 2}",
        (ir.Access((effect("A", "0", "1"), effect("A", "1", "2", write=True))),),
    ),
    (
        "{bulk_load: A[0] = n, completes: full[0]}",
        (
            ir.Asynchronous(
                (effect("A", "0", "n", write=True, **ASYNC),),
                completes=(ir.Completion(at("full"), Constant(128)),),
            ),
        ),
    ),
    (
        "{bulk_load: [A[0, 1]], completes: full[0], from: G, descriptor: D, chunks: 2}",
        (
            ir.Asynchronous(
                (
                    effect("A", "0", write=True, part=Constant(1), **ASYNC),
                    effect("G", "0", **ASYNC),
                    effect("D", "0", proxy=ir.Proxy.TENSORMAP),
                ),
                completes=(ir.Completion(at("full"), Constant(64)),),
                chunks=2,
            ),
        ),
    ),
    (
        "{bulk_store: A[0] = 1, to: G = 1, queue: stores}",
        (
            ir.Asynchronous(
                (effect("A", "0", "1", **ASYNC), effect("G", "0", "1", write=True, **ASYNC)),
                "stores",
            ),
        ),
    ),
    (
        "{mma: [A[0], A[1]], queue: group}",
        (ir.Asynchronous((effect("A", "0", **ASYNC), effect("A", "1", **ASYNC)), "group"),),
    ),
    (
        "{lds_dma: A[0] = 1, queue: counter}",
        (ir.Asynchronous((effect("A", "0", "1", write=True),), "counter"),),
    ),
    (
        "async: {reads: [A[0]], writes: G, queue: stores, proxy: generic}",
        (ir.Asynchronous((effect("A", "0"), effect("G", "0", write=True)), "stores"),),
    ),
    ("commit: group", (ir.Commit("group"),)),
    ("{commit: counter, arrives: full[1]}", (ir.QueueArrive("counter", at("full", "1")),)),
    ("drain: group", (ir.QueueWait("group"),)),
    (
        "drain: {stores, leaving: 1, until: read}",
        (ir.QueueWait("stores", Constant(1), ir.Until.READ),),
    ),
    ("{wait: counter, pending: n}", (ir.QueueWait("counter", Name("n")),)),
    ("fence: async", (ir.Fence(ir.FenceKind.ASYNC),)),
    (
        "{fence: tensormap_release, spaces: [global]}",
        (ir.Fence(ir.FenceKind.TENSORMAP_RELEASE, (ir.Space.GLOBAL,)),),
    ),
    ("fence: barrier_init", (ir.Fence(ir.FenceKind.BARRIER_INIT),)),
    ("{take: registers, amount: 40}", (ir.PoolTake("registers", Constant(40)),)),
    ("{give: registers, amount: n}", (ir.PoolGive("registers", Name("n")),)),
    ("count: {n: n + 1}", (ir.Assign("n", parse_expression("n + 1")),)),
    ("{fence: async, when: n == self}",
     (ir.Branch(parse_expression("n == self"), (ir.Fence(ir.FenceKind.ASYNC),)),)),
    ("finalize", ()),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "expected"), CASES, ids=[case[0] for case in CASES])
def test_sync_statements(statement: str, expected: ir.Block):
    assert operations(statement) == expected


def test_loops_branches_and_let():
    (loop,) = operations(
        "for: t in n..tiles - 1\n      do:\n        - let: {s: t % depth}\n"
        "        - if: s == 0\n          then: [{wait: {full[s], parity: 0}}]\n"
        "          else: [fence: async]"
    )
    assert isinstance(loop, ir.Loop)
    assert (loop.variable, to_text(loop.start), to_text(loop.stop)) == ("t", "n", "tiles - 1")
    (branch,) = loop.body
    assert isinstance(branch, ir.Branch)
    assert to_text(branch.condition) == "t % 2 == 0"
    assert branch.then == (ir.Wait(at("full", "t % 2"), Constant(0)),)
    assert branch.otherwise == (ir.Fence(ir.FenceKind.ASYNC),)


def test_operations_carry_the_place_of_their_statement():
    (operation,) = operations("arrive: full[1]")
    assert isinstance(operation.span, Span)
    line = operation.span.excerpt()
    assert (
        line[operation.span.start_column - 1 : operation.span.end_column - 1] == "arrive: full[1]"
    )


def test_declarations():
    program = program_of(HEAD + THINGS + "    - fence: async\n")
    assert program.parameters == (ir.Parameter("tiles"),)
    buffers = {item.name: item for item in program.buffers}
    assert (buffers["A"].stages, buffers["A"].parts, buffers["A"].bytes_per_stage) == (2, 2, 128)
    assert buffers["G"].space is ir.Space.GLOBAL
    assert program.barriers == (ir.Barrier("full", 2, 2), ir.Barrier("raw", 1, 1, False))
    assert program.named_barriers == (
        ir.NamedBarrier("ids", 16),
        ir.NamedBarrier("cluster", 1, ir.Scope.CLUSTER),
    )
    assert program.queues == (
        ir.Queue("group", True, True, True),
        ir.Queue("stores", True, True, False),
        ir.Queue("counter", False, True, False),
    )
    assert program.pools == (ir.Pool("registers", 100),)
    (role,) = program.roles
    assert (role.agents, role.threads, role.variables) == (2, 32, (("n", 3),))


@pytest.mark.parametrize(
    ("role", "agents", "threads"),
    [
        ("", 1, 32),
        ("warps: 3", 3, 32),
        ("warpgroups: 2", 2, 128),
        ("warpgroups: 2, agents: 8", 8, 32),
        ("warps: 4, agents: 1", 1, 128),
        ("threads: 5", 5, 1),
    ],
)
def test_shapes_of_roles(role: str, agents: int, threads: int):
    text = f"{HEAD}roles: {{main: {{{role}}}}}\nprogram: {{main: [fence: async]}}\n"
    (made,) = program_of(text).roles
    assert (made.agents, made.threads) == (agents, threads)


def test_a_wave_of_cdna_has_64_lanes():
    text = "titan: 1\nkernel: k\ntarget: gfx942\nroles: {main: {warps: 2}}\nprogram: {main: []}\n"
    assert program_of(text).roles[0].threads == 64


SIZES = (
    HEAD
    + "sizes: {a: 2, b: [1, 2], c: a * b, d: any}\n"
    + ("roles: {main: {}}\nbarriers: {x: {count: c}}\nprogram: {main: [arrive: x]}\n")
)


def test_sweeps_give_one_kernel_for_every_combination():
    family, errors = decode_text(SIZES)
    assert errors == [] and family is not None
    assert [dict(kernel.sizes) for kernel in family.kernels] == [
        {"a": 2, "b": 1, "c": 2},
        {"a": 2, "b": 2, "c": 4},
    ]
    counts = [kernel.program.barriers[0].count for kernel in family.kernels if kernel.program]
    assert counts == [2, 4]


def test_overrides():
    family, errors = decode_text(SIZES, overrides={"a": (3, 4), "b": (5,), "d": (7,)})
    assert errors == [] and family is not None
    assert [dict(kernel.sizes) for kernel in family.kernels] == [
        {"a": 3, "b": 5, "d": 7, "c": 15},
        {"a": 4, "b": 5, "d": 7, "c": 20},
    ]
    assert all(
        kernel.program and kernel.program.parameters == (ir.Parameter("d", 7),)
        for kernel in family.kernels
    )


CLUSTER = (
    HEAD
    + """\
ctas: 2
buffers:
  A: {stages: 2, bytes: 64}
  G: {space: global}
barriers: {full: {count: 1}, lead: {count: 2, cta: 0}}
named_barriers: {all_ctas: {scope: cluster, threads: 64}}
roles:
  main: {}
  leader: {cta: 1}
program:
  main:
    - arrive: full@peer
    - {arrive: lead, scope: cluster}
    - {wait: full, parity: cta}
    - sync: all_ctas
  leader:
    - {bulk_load: "A[0] = 1", completes: full, multicast: all, from: G}
    - load: A[1]@0
"""
)


def test_clusters_have_everything_once_in_each_cta():
    program = program_of(CLUSTER)
    assert [(role.name, role.cta) for role in program.roles] == [
        ("main@0", 0), ("main@1", 1), ("leader@1", 1),
    ]  # fmt: skip
    assert [(item.name, item.cta) for item in program.barriers] == [
        ("full@0", 0), ("full@1", 1), ("lead@0", 0),
    ]  # fmt: skip
    assert [item.name for item in program.buffers] == ["A@0", "A@1", "G"]
    assert program.roles[1].body == (
        ir.Arrive(at("full@0")),
        ir.Arrive(at("lead@0"), scope=ir.Scope.CLUSTER),
        ir.Wait(at("full@1"), Constant(1)),
        ir.BarrierSync(at("all_ctas"), Constant(64)),
    )
    load, read = program.roles[2].body
    assert isinstance(load, ir.Asynchronous)
    assert [item.buffer for item in load.effects] == ["A@0", "A@1", "G"]
    assert [(c.barrier.name, c.bytes) for c in load.completes] == [
        ("full@0", Constant(64)), ("full@1", Constant(64)),
    ]  # fmt: skip
    assert read == ir.Access((effect("A@0", "1"),))


PROTOCOL = (
    HEAD
    + """\
sizes: {tiles: any}
buffers:
  A: {tile: [8, 8], dtype: bf16}
  B: {tile: [8, 8], dtype: bf16}
  C: {space: tensor, stages: 2}
rings:
  operands: {buffers: [A, B], depth: 3, partial: poison, release: collective}
  results: {buffers: [C], transport: mma}
named_barriers: {ids: {threads: 64}}
roles: {main: {warps: 2}}
program:
  main:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - {produce: operands[t], buffers: [A], last: false}
        - {produce: operands[t], bytes: 0, poison: t == 3}
        - wait: operands[t]
        - {read: operands[t - 1], buffers: B}
        - issue: {mma: [A[t], B[t], operands[t + 1]], as: group, into: C[t]}
        - drain: {group, leaving: 1}
        - sync: ids
        - {release: operands[t], after: group}
        - when poisoned: operands[t]
          then: [release: operands[t]]
    - finalize
"""
)


def test_protocol_statements():
    protocol = kernel_of(PROTOCOL).protocol
    assert protocol is not None
    operands, results = protocol.rings
    assert (operands.depth, operands.bytes, operands.buffers) == (3, 256, ("A", "B"))
    assert operands.partial is model.PartialTile.POISON
    assert operands.release is model.ReleaseMode.COLLECTIVE
    assert (results.depth, results.transport) == (2, model.Transport.MMA)
    assert {item.name: item.stages for item in protocol.buffers} == {"A": 3, "B": 3, "C": 2}
    loop, end = protocol.roles[0].body
    assert isinstance(loop, model.For) and end == model.Finalize()
    t = Name("t")
    later = parse_expression("t + 1")
    assert loop.body == (
        model.Acquire("operands", t),
        model.Produce("operands", t, buffers=("A",), last=False),
        model.Produce("operands", t, Constant(0), parse_expression("t == 3")),
        model.WaitReady("operands", t),
        model.ReadStage("operands", parse_expression("t - 1"), ("B",)),
        model.Issue(
            (
                model.Operand("operands", t, ("A", "B")),
                model.Operand("operands", later),
            ),
            "group",
            (model.Operand("results", t, ("C",)),),
        ),
        model.Drain("group", Constant(1)),
        model.Primitive(ir.BarrierSync(at("ids"), Constant(64))),
        model.Release("operands", t, "group"),
        model.WhenPoisoned("operands", t, (model.Release("operands", t),)),
    )


def test_an_override_below_the_minimum_is_refused():
    family, errors = decode_text(SIZES, overrides={"d": (-1, 3)})
    assert family is None
    assert [item.headline for item in errors] == ["`d` is at least 0, not -1"]


LEAVES = """
titan: 1
kernel: leaves
target: sm_90a
ctas: 2
barriers: {b: 1}
named_barriers: {cluster: {scope: cluster}}
roles: {one: {warps: 1}, two: {warpgroups: 1, cta: 0}}
program:
  one:
    - sync: cluster
  two:
    - BODY
"""


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("arrive: b", 64),  # ends by itself and never comes: exited threads count as arrived
        ("{wait: b, phase: 0}", 192),
        ("sync: cluster", 192),
        ("if: 0 < 1\n      then: [{arrive: cluster}, {wait: cluster}]", 192),
    ],
)
def test_a_cluster_barrier_counts_who_has_not_ended(body: str, threads: int):
    family, errors = decode_text(LEAVES.replace("BODY", body))
    assert family is not None, errors
    program = family.kernels[0].program
    assert program is not None
    counts = {
        operation.threads
        for role in program.roles
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.BarrierSync | ir.BarrierArrive)
    }
    assert counts == {Constant(threads)}
