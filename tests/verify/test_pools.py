"""Pools order execution, not memory."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import diagnostics_of
from titan.sync.program import Access, walk
from titan.verify.lowering import sync_program
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel
from titan.verify.pools import without_pools

KERNEL = """\
titan: 1
kernel: pools
target: sm_90a
sizes: {tiles: any}
buffers: {X: {bytes: 16, initial: 0}}
barriers: {ready: 1}
pools: {registers: 0}
roles: {writer: {warps: 1}, reader: {warps: 1}}
program:
  writer:
    - FIRST
    - {give: registers, amount: 8}
    - arrive: ready
  reader:
    - {take: registers, amount: 8}
    - {wait: ready, phase: 0}
    - SECOND
"""
ACCESSES = {
    "read after write": ("store: X = 1", "load: X = 1"),
    "write after read": ("load: X", "store: X = 1"),
    "write after write": ("store: X = 1", "store: X = 2"),
}


def finding_of(text: str, engine: str) -> Finding:
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, engine=engine))


@pytest.mark.parametrize("engine", ["auto", "explore", "reference"])
@pytest.mark.parametrize("accesses", ACCESSES)
def test_nothing_may_rest_on_a_pool_alone(accesses: str, engine: str):
    first, second = ACCESSES[accesses]
    text = KERNEL.replace("FIRST", first).replace("SECOND", second)
    ordered = finding_of(text, engine)
    assert ordered.verdict is Verdict.VERIFIED
    rests = text.replace("    - {wait: ready, phase: 0}\n", "")
    finding = finding_of(rests, engine)
    assert finding.verdict is Verdict.REFUTED
    (item,) = diagnostics_of(finding)
    assert item.code == "TTN305" and "the pool registers" in item.headline


COLUMNS = """\
titan: 1
kernel: columns
target: sm_100a
sizes: {tiles: any}
buffers:
  A: {tile: [128, 64], dtype: bf16, initial: 0}
  T: {space: tensor, tile: [128, 128], dtype: f32}
barriers: {ready: 1, done: 1, read: 1}
pools: {columns: {available: 512, kind: tensor}}
queues: {tc: tcgen05}
roles: {owner: {warps: 1}, issuer: {threads: 1}, reader: {warpgroups: 1}}
program:
  owner:
    - {take: columns, amount: 128}
    - arrive: ready
    - {wait: read, phase: 0}
    - {give: columns, amount: 128}
  issuer:
    - {wait: ready, phase: 0}
    - for: t in 0..tiles + 1
      do:
        - mma: A = 0
          into: T = 0
          queue: tc
    - {commit: tc, arrives: done}
    - {wait: done, phase: 0}
  reader:
    - {wait: done, phase: 0}
    - load: T = 0
    - arrive: read
"""


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("engine", ["auto", "explore", "order"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("  issuer:\n    - {wait: ready, phase: 0}\n", "  issuer:\n"),
        ("    - {wait: read, phase: 0}\n", "    - {wait: done, phase: 0}\n"),
        ("    - load: T = 0\n    - arrive: read\n", "    - arrive: read\n    - load: T = 0\n"),
    ],
    ids=["in order", "used too early", "freed too early", "read too late"],
)
def test_tensor_memory_is_used_while_its_columns_are_allocated(
    old: str, new: str, engine: str, pieces: int
):
    text = COLUMNS.replace(old, new) if old else COLUMNS
    for verb in ("take", "give"):
        whole = f"    - {{{verb}: columns, amount: 128}}\n"
        assert whole in text
        text = text.replace(whole, whole.replace("128", str(128 // pieces)) * pieces)
    finding = finding_of(text, engine)
    if not old:
        assert finding.verdict is Verdict.VERIFIED
        return
    assert finding.verdict is Verdict.REFUTED
    (item,) = diagnostics_of(finding)
    assert item.code == "TTN305" and "columns" in item.headline


@pytest.mark.parametrize(
    ("owner", "other", "bounds"),
    [
        ("TAKE, TAKE, GIVE, GIVE", "", ["take", "give"]),
        ("TAKE, GIVE, TAKE, GIVE", "", ["take", "give"]),
        ("TAKE, TAKE", "GIVE, GIVE", ["take", "give"]),
        ("TAKE, GIVE", "TAKE, GIVE", []),
        ("TAKE, {if: n > 1, then: [TAKE]}, GIVE, GIVE", "", []),
        ("TAKE, {for: t in 0..n, do: [TAKE, GIVE]}, GIVE", "", []),
        ("{for: t in 0..n, do: [TAKE, GIVE]}", "", ["take", "give"]),
        ("GIVE", "", []),
    ],
)
def test_which_allocations_bound_the_use_of_tensor_memory(
    owner: str, other: str, bounds: list[str]
):
    """The first and the last of one agent each; nothing where the text gives no order."""
    text = "titan: 1\nkernel: k\ntarget: sm_100a\nsizes: {n: any}\n"
    text += "buffers: {T: {space: tensor}}\npools: {c: {available: 512, kind: tensor}}\n"
    text += "roles: {a: {warps: 1}, b: {warps: 1}}\nprogram: {a: [OWNER], b: [OTHER]}\n"
    text = text.replace("OWNER", owner).replace("OTHER", other)
    text = text.replace("TAKE", "{take: c, amount: 32}").replace("GIVE", "{give: c, amount: 32}")
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    program = without_pools(sync_program(family.kernels[0]).program, frozenset({"c"}))
    found = [item for role in program.roles for item in walk(role.body)]
    assert [item.label for item in found if isinstance(item, Access)] == bounds


PIPELINE = """\
titan: 1
kernel: pipeline
target: sm_100a
sizes: {n: any}
buffers:
  A: {stages: 2, bytes: 4096}
  T: {space: tensor, tile: [128, 128], dtype: f32}
barriers: {full: {stages: 2, count: 1}, empty: {stages: 2, count: 1}, done: 1, read: 1}
pools: {columns: {available: 512, kind: tensor}}
queues: {tc: tcgen05}
roles: {load: {warps: 1}, issue: {warps: 1}, reader: {warpgroups: 1}}
program:
  load:
    - for: t in 0..n * n
      do:
        - {wait: "empty[t % 2]", phase: t // 2 - 1}
        - {arrive: "full[t % 2]", bytes: 4096}
        - {bulk_load: "A[t % 2] = t", completes: "full[t % 2]"}
    - {wait: done, phase: 0}
  issue:
    - {take: columns, amount: 128}
    - for: t in 0..n * n
      do:
        - {wait: "full[t % 2]", phase: t // 2}
        - {mma: "A[t % 2] = t", into: T = 7, queue: tc}
        - {commit: tc, arrives: "empty[t % 2]"}
    - {commit: tc, arrives: done}
    - {wait: read, phase: 0}
    - {give: columns, amount: 128}
  reader:
    - {wait: done, phase: 0}
    - {load: T = 7, when: n >= 1}
    - arrive: read
"""


def test_given_sizes_are_decided_by_the_engine_that_decides_what_completions_publish():
    """No search covers n * n: the explorer leaves what commits publish to happens-before."""
    finding = finding_of(PIPELINE, "auto")
    assert finding.verdict is Verdict.VERIFIED and finding.narrowing is not None
    early = finding_of(PIPELINE.replace("    - {wait: read, phase: 0}\n", ""), "auto")
    assert early.verdict is Verdict.REFUTED
    (item,) = diagnostics_of(early)
    assert item.code == "TTN305" and "columns" in item.headline
