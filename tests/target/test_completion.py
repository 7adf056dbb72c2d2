"""The table of what completes by what: its rows before assemblers, all pairs before the rules.

The exhaustive test builds a kernel for every target, row and kind of queue, and compares
what the rules say with a list that is written out here and shares nothing with the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from titan.language.kernel.decode import decode_text
from titan.language.kernel.table import QUEUE_KINDS
from titan.target.completion import (
    MBARRIER,
    CompletionRow,
    CounterRow,
    FaultyCompletion,
    OperationReach,
    Waits,
    completion,
    known_completions,
    parse_completion,
)
from titan.target.description import target_of
from titan.target.limits import limits
from titan.verify.legality.check import examine

PTXAS, LLVM_MC = shutil.which("ptxas"), shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
PTX = """.version 9.0
.target {target}
.address_size 64
.shared .align 1024 .b8 memory[4096];
.visible .entry k(.param .u64 p) .maxntid 128 .minnctapersm 1
{{
  .reg .pred q; .reg .b64 a, d<4>; .reg .b32 r, x, y; .reg .f32 f<8>;
  ld.param.u64 a, [p]; cvta.to.global.u64 a, a;
  mov.u32 r, memory; mov.u32 x, 0; mov.u32 y, 0; mov.u64 d0, 0; mov.u64 d1, 0;
  mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0;
  setp.eq.u32 q, x, 0;
  {instruction}
  ret;
}}
"""
# What completes by what, once more and by hand: (verb or signature, counters or mbarrier).
HOPPER = {
    "cp_async": {"cp_async"},
    "bulk_load": {MBARRIER},
    "bulk_store": {"bulk"},
    "mma": {"wgmma"},
    "async register shared": {MBARRIER},
}
BLACKWELL = {
    **{key: value for key, value in HOPPER.items() if key != "mma"},
    "mma": {"tcgen05"},
    "async  shared": {MBARRIER},
    "async shared tensor": {"tcgen05"},
    "async tensor register": {"tcgen05_ld", "tcgen05"},
    "async register tensor": {"tcgen05_st", "tcgen05"},
}
CDNA = {
    "lds_dma": {"vmcnt"},
    "async global register": {"vmcnt", "lgkmcnt"},
    "async register global": {"vmcnt"},
    "async shared register": {"lgkmcnt"},
    "async register shared": {"lgkmcnt", "vmcnt"},
    "async register ": {"vmcnt", "lgkmcnt", "expcnt"},
}
GFX1250 = {
    "lds_dma": {"asynccnt", "tensorcnt"},
    "async global register": {"loadcnt", "kmcnt"},
    "async register global": {"storecnt", "asynccnt", "tensorcnt"},
    "async shared register": {"dscnt"},
    "async register shared": {"dscnt", "asynccnt", "tensorcnt"},
    "async shared global": {"asynccnt", "tensorcnt"},
    "async register ": {
        "loadcnt", "storecnt", "dscnt", "kmcnt", "expcnt", "xcnt", "vm_vsrc", "asynccnt",
        "tensorcnt",
    },
}  # fmt: skip
BY_HAND = {
    "sm_90a": HOPPER, "sm_100a": BLACKWELL, "gfx942": CDNA, "gfx950": CDNA, "gfx1250": GFX1250,
}  # fmt: skip
ARRIVES = {"cp_async": 1, "tcgen05": 2, "asynccnt": 1, "tensorcnt": 1}  # 1: own CTA, 2: cluster
NO_WAIT = {"tcgen05"}
READ_WAIT = {"bulk"}


@cache
def assembles(target: str, instruction: str) -> bool | None:
    """Whether the assembler of the target takes the instruction; None without one."""
    if target.startswith("sm_"):
        if PTXAS is None:
            return None
        command = [PTXAS, "-arch", target, "-", "-o", os.devnull]
        text = PTX.format(target=target, instruction=instruction)
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"titan_completion_{os.getpid()}.ptx"
        path.write_text(text, encoding="utf-8")
        command[3] = str(path)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        path.unlink()
        return done.returncode == 0
    if LLVM_MC is None:
        return None
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-o", os.devnull]
    known = subprocess.run(command, input="s_nop 0\n", capture_output=True, text=True, check=False)
    if known.returncode or "not a recognized" in known.stderr:
        return None
    done = subprocess.run(
        command, input=f"{instruction}\n", capture_output=True, text=True, check=False
    )
    return done.returncode == 0


def rows_of(target: str) -> list[CompletionRow | CounterRow]:
    table = completion(target)
    assert table is not None
    return [*table.operations, *table.counters.values()]


@pytest.mark.parametrize("target", known_completions())
def test_every_row_is_what_the_assembler_says(target: str):
    for row in rows_of(target):
        for instruction in row.assembles:
            assert assembles(target, instruction) in (True, None), instruction
        for instruction in row.rejected:
            assert assembles(target, instruction) in (False, None), instruction


@pytest.mark.parametrize("target", known_completions())
def test_every_row_has_a_source_a_trial_and_a_known_counter(target: str):
    table = completion(target)
    assert table is not None
    for row in rows_of(target):
        assert row.source and row.assembles, row
    for operation in table.operations:
        assert set(operation.by) <= {MBARRIER, *table.counters}
    assert set(table.counters) <= set(QUEUE_KINDS)
    known = limits(target).table("operations")
    assert not known or set(table.counters) <= set(known), "TTN427 would warn of them"
    for kind, counter in table.counters.items():
        assert counter.commits is QUEUE_KINDS[kind][0]


def kernel(target: str, statement: str, kind: str, rest: str = "", extra: str = "") -> str:
    return f"""
titan: 1
kernel: one_operation
target: {target}
ctas: 2
buffers:
  S: {{space: shared, bytes: 1024, initial: 0}}
  G: {{space: global, bytes: 1024, initial: 0}}
  R: {{space: register, bytes: 1024, initial: 0}}
  T: {{space: tensor, initial: 0}}
barriers: {{b: 1}}
queues: {{q: {kind}}}
roles: {{w: {{warpgroups: 1}}}}
program:
  w:
    - {statement}
{rest}{extra}"""


def codes(text: str) -> set[str]:
    family, errors = decode_text(text)
    assert family is not None, (errors, text)
    found = family.kernels[0]
    assert found.program is not None
    return {item.code for item in examine(found, found.program).errors} & {"TTN425", "TTN428"}


def statement_of(operation: str, how: str, target: str) -> str:
    name = {"shared": "S", "global": "G", "register": "R", "tensor": "T"}
    if operation == "mma":
        into = "T" if target == "sm_100a" else "R"
        return f"{{mma: [S], into: {into}, {how}}}"
    if not operation.startswith("async "):
        source = ", from: G" if operation in ("bulk_load", "cp_async", "lds_dma") else ", to: G"
        return f"{{{operation}: S{source}, {how}}}"
    _, reads, writes = operation.split(" ")
    parts = [f"reads: {name[reads]}"] if reads else []
    parts += [f"writes: {name[writes]}"] if writes else []
    in_async = target.startswith("sm_") and "shared" in (reads, writes) and reads != "register"
    parts.append(f"proxy: {'async' if in_async else 'generic'}")
    return f"{{async: {{{', '.join(parts)}, {how}}}}}"


@pytest.mark.parametrize("target", BY_HAND)
def test_an_operation_in_every_queue(target: str):
    """Every operation in every kind of queue of the target: right exactly where it completes."""
    table = completion(target)
    assert table is not None
    tried = 0
    for operation, by in BY_HAND[target].items():
        for kind in table.counters:
            if operation.startswith("async  "):
                continue  # nothing but the write of shared memory is seen of it: any may write
            text = kernel(target, statement_of(operation, "queue: q", target), kind)
            assert ("TTN428" not in codes(text)) is (kind in by), (operation, kind)
            tried += 1
        if operation in ("cp_async", "lds_dma", "bulk_store"):
            continue  # the language asks for their queue
        how = "completes: b, bytes: 16" if operation not in ("mma",) else ""
        if how and not operation.startswith("async tensor"):
            text = kernel(target, statement_of(operation, how, target), next(iter(table.counters)))
            assert ("TTN428" not in codes(text)) is (MBARRIER in by), operation
            tried += 1
    assert tried >= len(BY_HAND[target]) * len(table.counters) // 2


@pytest.mark.parametrize("target", BY_HAND)
def test_arrivals_and_waits_of_every_counter(target: str):
    table = completion(target)
    assert table is not None
    verbs = {
        "cp_async": "cp_async", "bulk": "bulk_store", "wgmma": "mma", "tcgen05": "mma",
        "tcgen05_ld": "async tensor register", "tcgen05_st": "async register tensor",
    }  # fmt: skip
    for kind in table.counters:
        own = {op for op, by in BY_HAND[target].items() if kind in by}
        statement = statement_of(verbs.get(kind, min(own, default="")), "queue: q", target)
        _, ordered, _ = QUEUE_KINDS[kind]  # the language refuses arrivals behind others
        for place, reach in (("b", 1), ("b@peer", 2)) if ordered else ():
            rest = f"    - {{commit: q, arrives: {place}}}\n"
            found = codes(kernel(target, statement, kind, rest))
            assert (not found) is (ARRIVES.get(kind, 0) >= reach), (kind, place)
        found = codes(kernel(target, statement, kind, "    - drain: q\n"))
        assert (not found) is (kind not in NO_WAIT), kind
        found = codes(kernel(target, statement, kind, "    - {drain: q, until: read}\n"))
        assert (not found) is (kind in READ_WAIT), kind


@pytest.mark.parametrize("kind", QUEUE_KINDS)
def test_a_queue_says_no_more_than_its_counter(kind: str):
    tables = [table for name in known_completions() if (table := completion(name)) is not None]
    target = next(table.target for table in tables if kind in table.counters)
    for number, word in ((1, "ordered"), (2, "pipelined")):
        for value in (True, False):
            text = kernel(
                target,
                "{sync: meet, threads: 128}",
                f"{{kind: {kind}, {word}: {str(value).lower()}}}",
                extra="named_barriers: {meet: {}}\n",
            )
            stronger = value and not QUEUE_KINDS[kind][number]
            assert ("TTN428" in codes(text)) is stronger


def test_reach_of_every_operation():
    """A peer's shared memory: reached by bulk copies and tcgen05, not by wgmma or cp.async."""
    for target, operation, buffer, kind, legal in (
        ("sm_90a", "{mma: [S@peer], into: R, queue: q}", "S", "wgmma", False),
        ("sm_100a", "{mma: [S@peer], into: T, queue: q}", "S", "tcgen05", True),
        ("sm_90a", "{cp_async: S@peer, queue: q}", "S", "cp_async", False),
        ("sm_90a", "{bulk_store: S@peer, queue: q}", "S", "bulk", False),
        ("sm_90a", "{bulk_load: S@peer, completes: b@peer}", "S", "bulk", True),
        ("sm_100a", "{async: {reads: T@peer, queue: q}}", "T", "tcgen05_ld", False),
    ):
        del buffer
        assert (codes(kernel(target, operation, kind)) == set()) is legal, operation


def test_capabilities():
    assert target_of("sm_100a").matrix_commits_to_barriers
    assert not target_of("sm_90a").matrix_commits_to_barriers
    assert target_of("sm_90a").matrix_counter == "wgmma" and target_of("sm_90").matrix_counter == ""
    assert [target_of(name).threads_per_warp for name in ("gfx942", "gfx1100", "sm_80")] == [
        64, 32, 32,
    ]  # fmt: skip
    assert target_of("sm_80").parity_barriers and not target_of("gfx1250").parity_barriers
    assert target_of("gfx950").copies_direct_to_shared and not target_of("sm_80").bulk_copies


def test_faults_of_a_table_are_told():
    for text in (
        "titan: 1\ncompletion: x\n",
        "titan: 1\ncompletion: x\nvendor: amd\noperations:\n  - {verb: async}\n",
        "titan: 1\ncompletion: x\nvendor: amd\ncounters: {vmcnt: {waits: never, source: a}}\n",
        "titan: 1\ncompletion: x\nextends: nobody\n",
    ):
        with pytest.raises(FaultyCompletion):
            parse_completion(text)
    table = parse_completion("titan: 1\ncompletion: x\nextends: sm_90\n")
    assert table.counters["bulk"].waits is Waits.COUNT
    assert table.counters["cp_async"].arrives is OperationReach.OWN
