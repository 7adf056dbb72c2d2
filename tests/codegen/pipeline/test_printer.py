"""The printer spells every construct of a pipeline, and the same document the same way."""

from __future__ import annotations

import pytest

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.printer import block_lines, pipeline_text, spelled
from titan.foundation.errors import InternalError

A, B = slot("a", "t % depth", content="t"), slot("b", "0", "self")
SPELLED = [
    (doc.FinalizeStatement(), ["- finalize"]),
    (doc.ComputeStatement("x", "t - 1"), ["- compute: x", "  tile: t - 1"]),
    (doc.CountStatement("n"), ["- count: {n: n + 1}"]),
    (doc.AcquireStatement(slot("r", "t")), ["- acquire: r[t]"]),
    (
        doc.ProduceStatement(slot("r", "t"), ("a",), last=False, stored=True),
        ["- produce: r[t]", "  stored: true", "  buffers: [a]", "  last: false"],
    ),
    (doc.WaitStatement(slot("f", "0"), "t // 2", "cluster"),
     ["- wait: f[0]", "  phase: t // 2", "  scope: cluster"]),
    (doc.ReleaseStatement(slot("r", "t"), after="m", when="t >= 1"),
     ["- release: r[t]", "  after: m", "  when: t >= 1"]),
    (doc.ReadStatement(slot("r", "t"), ("a", "b")), ["- read: r[t]", "  buffers: [a, b]"]),
    (doc.IssueStatement((A, B), "m", accumulates=slot("acc", "0")),
     ["- issue: mma(a[t % depth] = t, b[0, self])", "  as: m", "  accumulates: acc[0]"]),
    (doc.DrainStatement("q", "1", until_read=True), ["- drain: {q, leaving: 1, until: read}"]),
    (doc.DrainStatement("q", "min(1, t)"), ['- drain: {q, leaving: "min(1, t)"}']),
    (doc.FenceStatement(), ["- fence: async"]),
    (doc.ArriveStatement(slot("f", "0", cta="1"), 64, "cluster"),
     ["- arrive: f[0]@1", "  bytes: 64", "  scope: cluster"]),
    (doc.SyncStatement(slot("workgroup")), ["- sync: workgroup"]),
    (doc.LoadStatement(A), ["- load: a[t % depth] = t"]),
    (doc.StoreStatement(B), ["- store: b[0, self]"]),
    (doc.BulkLoadStatement(A, slot("f", "0"), 32, multicast=True),
     ["- bulk_load: a[t % depth] = t", "  completes: f[0]", "  bytes: 32", "  multicast: all"]),
    (doc.BulkStoreStatement(A, "output"), ["- bulk_store: a[t % depth] = t", "  queue: output"]),
    (doc.MultiplyStatement((A,), "q", into=B),
     ["- mma: a[t % depth] = t", "  into: b[0, self]", "  queue: q"]),
    (doc.MultiplyStatement((A,), "q", B, (slot("b", "0", cta="1"),)),
     ["- mma: a[t % depth] = t", "  into: b[0, self], b[0]@1", "  queue: q"]),
    (doc.AskStatement(A, slot("f", "0"), 16),
     ["- async:", "  writes: a[t % depth] = t", "  completes: f[0]", "  bytes: 16"]),
    (doc.CommitStatement("q", slot("f", "0")), ["- commit: q", "  arrives: f[0]"]),
    (doc.CopyToLdsStatement((A, B), "q", when="t < 2"),
     ["- lds_dma: a[t % depth] = t, b[0, self]", "  queue: q", "  when: t < 2"]),
    (doc.AsynchronousStatement("q", writes=(A,)),
     ["- async:", "  writes: a[t % depth] = t", "  queue: q", "  proxy: generic"]),
    (doc.ForStatement("t", "0", "tiles", (doc.FenceStatement(),)),
     ["- for: t in 0..tiles", "  do:", "    - fence: async"]),
    (doc.IfStatement("self == 0", (doc.FenceStatement(),)),
     ["- if: self == 0", "  then:", "    - fence: async"]),
    (doc.WhenPoisonedStatement(slot("r", "t"), (), (doc.FenceStatement(),)),
     ["- when poisoned: r[t]", "  else:", "    - fence: async"]),
    (doc.ProduceStatement(slot("r", "t"), poison="t + 1 == tiles"),
     ["- produce: r[t]", "  poison: t + 1 == tiles"]),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "lines"), SPELLED)
def test_statements_are_spelled(statement, lines):
    assert block_lines((statement,), 0) == lines


def test_every_statement_has_a_spelling():
    classes = {
        item
        for item in vars(doc).values()
        if isinstance(item, type)
        and issubclass(item, doc.DocumentStatement)
        and item is not doc.DocumentStatement
    }
    assert classes == set(spelled.registry) - {doc.DocumentStatement, object}
    assert classes == {type(statement) for statement, _ in SPELLED}


def test_a_statement_of_no_class_is_an_internal_error():
    with pytest.raises(InternalError, match="Statement"):
        spelled(doc.DocumentStatement())


def test_declarations_have_the_keys_that_are_given_in_their_order():
    buffer = doc.BufferDeclaration("a", 64, 32, "bf16", stages="depth", parts=2, swizzle="64B")
    role = doc.RoleDeclaration("wave", warps=4, registers=40, counters=("n",))
    document = doc.PipelineDocument(
        "k", "sm_90a", doc.DocumentSizes(2, over_work=True), (buffer,), (role,),
        (("wave", (doc.FinalizeStatement(),)),), ctas=2,
        named_barriers=(doc.NamedBarrierDeclaration("all", 128, scope="cluster"),),
    )  # fmt: skip
    assert pipeline_text(document).splitlines() == [
        "titan: 1",
        "kernel: k",
        "target: sm_90a",
        "ctas: 2",
        "note: The pipeline of tile program k, written by titan build.",
        "sizes: {work: any, tiles: {any: true, minimum: 1, per: w}, depth: 2}",
        "buffers:",
        "  a: {stages: depth, parts: 2, tile: [64, 32], dtype: bf16, swizzle: 64B}",
        "named_barriers:",
        "  all: {scope: cluster, threads: 128}",
        "roles:",
        "  wave: {warps: 4, registers: 40, counters: {n: 0}}",
        "program:",
        "  wave:",
        "    - finalize",
    ]
