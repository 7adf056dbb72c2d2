"""Faults of kernel files: the rule, exactly the characters that are marked, and the help."""

from __future__ import annotations

import pytest

from titan.foundation.diagnostics.model import Diagnostic
from titan.language.kernel.decode import decode_text

KERNEL = """\
titan: 1
kernel: k
target: sm_90a
sizes: {tiles: any, depth: 2}
buffers:
  A: {tile: [8, 8], dtype: bf16}
  X: {stages: 2}
  G: {space: global}
rings:
  operands: {buffers: A, depth: depth}
barriers: {full: {count: 1, stages: depth}}
named_barriers: {ids: {stages: 4}}
queues: {group: wgmma, counter: vmcnt, scalar: kmcnt}
roles: {main: {warps: 2}}
program:
  main:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - STATEMENT
"""
STATEMENT = "STATEMENT"
CASES = [
    (STATEMENT, "acquire: operand[t]", "TTN011", "operand", "did you mean `operands`?"),
    (STATEMENT, "aquire: operands[t]", "TTN010", "aquire", "did you mean `acquire`?"),
    (STATEMENT, "acquire: operands[u]", "TTN011", "u", None),
    (STATEMENT, "acquire: operands[t * t]", "TTN012", "operands[t * t]", None),
    (STATEMENT, "acquire: operands[t // 2]", "TTN012", "operands[t // 2]", None),
    (STATEMENT, "acquire: operands", "TTN015", "operands", "write `operands[t]` for iteration t"),
    (STATEMENT, "acquire: full[0]", "TTN011", "full", None),
    (STATEMENT, "{acquire: operands[t], release: operands[t]}", "TTN017", "release", None),
    (STATEMENT, "{store: G, proxy: texture}", "TTN017", "proxy", None),
    (STATEMENT, "{load: X, proxy: surface}", "TTN017", "proxy", None),
    (STATEMENT, "{fence: async_release, spaces: [shared]}", "TTN017", "spaces", None),
    (STATEMENT, "{load: G, proxy: textures}", "TTN010", "textures", "did you mean `texture`?"),
    (STATEMENT, "{release: operands[t], afer: group}", "TTN006", "afer", "did you mean `after`?"),
    (STATEMENT, "{release: operands[t], after: grp}", "TTN011", "grp", None),
    (STATEMENT, "issue: {mma: [X[t]], as: g}", "TTN011", "X[t]", None),
    (STATEMENT, "issue: {mma: [A[t]]}", "TTN007", "issue: {mma: [A[t]]}", None),
    (STATEMENT, "wait: full[0]", "TTN007", "wait: full[0]", None),
    (STATEMENT, "{wait: operands[t], parity: 0}", "TTN006", "parity", None),
    (STATEMENT, "{wait: full[0], parity: 2}", "TTN009", "parity",
     "`phase: k` waits with the parity of k"),
    (STATEMENT, "{arrive: full[0], threads: 3}", "TTN006", "threads", None),
    (STATEMENT, "sync: ids[1]", "TTN007", "sync: ids[1]", None),
    (STATEMENT, "arrive: full[0", "TTN015", "[", None),
    (STATEMENT, "arrive: full[0] + 1", "TTN015", "+ 1", None),
    (STATEMENT, "arrive: full[1 +]", "TTN015", "1 +", None),
    (STATEMENT, "arrive: full[0]@1", "TTN009", "full[0]@1", None),
    (STATEMENT, "{bulk_load: X[0], completes: full[0]}", "TTN007",
     "bulk_load: X[0]", None),
    (STATEMENT, "{bulk_load: A[0]}", "TTN007", "bulk_load: A[0]", None),
    (STATEMENT, "{cp_async: A[0]}", "TTN007", "cp_async: A[0]", None),
    (STATEMENT, "commit: counter", "TTN017", "counter", None),
    (STATEMENT, "{commit: scalar, arrives: full[0]}", "TTN017", "scalar", None),
    (STATEMENT, "fence: asynch", "TTN010", "asynch", "did you mean `async`?"),
    (STATEMENT, "count: {m: 1}", "TTN011", "m", None),
    (STATEMENT, "let: {tiles: 1}", "TTN013", "tiles", None),
    (STATEMENT, "{for: depth in 0..2, do: []}", "TTN013", "depth", None),
    (STATEMENT, "{for: s in 0..tile, do: []}", "TTN011", "tile", "did you mean `tiles`?"),
    (STATEMENT, "{if: t > 0}", "TTN007", "if: t > 0", None),
    (STATEMENT, "7", "TTN010", "7", None),
    (STATEMENT, "[7]", "TTN008", "[7]", None),
    ("titan: 1", "titan: 2", "TTN016", "2", "this version of titan reads `titan: 1`"),
    ("target: sm_90a", "target: sm_90b", "TTN010", "sm_90b", "did you mean `sm_90`?"),
    ("depth: 2}", "depth: 0}", "TTN009", "depth", None),
    ("depth: 2}", "depth: tiles}", "TTN009", "tiles", None),
    ("depth: 2}", "depth: true}", "TTN008", "true", None),
    ("{count: 1,", "{count: true,", "TTN008", "true", None),
    (STATEMENT, "{arrive: full[0], bytes: false}", "TTN008", "false", None),
    (STATEMENT, "{wait: full[0], phase: true}", "TTN008", "true", None),
    ("buffers: A,", "buffers: B,", "TTN011", "operands", None),
    ("A: {", "A: {stages: 3, ", "TTN017", "operands", None),
    ("dtype: bf16", "dtype: bf17", "TTN010", "bf17", "did you mean `bf16`?"),
    ("dtype: bf16", "dtype: bf16, bytes: 100", "TTN017", "100", None),
    ("X: {", "full: {", "TTN013", "full", None),
    ("X: {", "cta: {", "TTN013", "cta", None),
    ("warps: 2", "warps: 2, warpgroups: 1", "TTN017", "warpgroups", None),
    ("warps: 2", "warps: 2, agents: 3", "TTN017", "3", None),
    ("  main:\n", "  other:\n", "TTN011", "other", "known here: `main`"),
    ("sizes:", "policies: {fence_rule: reader}\nsizes:", "TTN010", "reader", None),
    ("sizes:", "allow: [{rule: TTN201, reason: x}]\nsizes:", "TTN017", "TTN201", None),
]  # fmt: skip


def marked(item: Diagnostic) -> str:
    span = item.span
    assert span is not None
    return span.excerpt()[span.start_column - 1 : span.end_column - 1]


@pytest.mark.parametrize(("old", "new", "code", "text", "help_text"), CASES,
                         ids=[case[1] for case in CASES])  # fmt: skip
def test_faults(old: str, new: str, code: str, text: str, help_text: str | None):
    assert old in KERNEL
    source = KERNEL.replace(old, new, 1)
    family, errors = decode_text(source.replace("- STATEMENT", "- acquire: operands[t]"))
    assert family is None
    found = [(item.code, marked(item)) for item in errors]
    assert (code, text) in found, found
    helps = [help_ for item in errors if item.code == code for help_ in item.helps]
    assert help_text is None or help_text in helps


@pytest.mark.parametrize(
    ("section", "statement"),
    [
        ("queues: {q: []}", "commit: q"),
        ("buffers: {A: 7}", "{cp_async: A = 1, queue: w}"),
        ("barriers: {b: []}", "{init: b}"),
        ("named_barriers: {n: []}", "{sync: n, threads: 32}"),
        ("pools: {p: []}", "{take: p, amount: 1}"),
    ],
)
def test_what_is_declared_wrongly_is_used_without_another_fault(section: str, statement: str):
    lines = ["titan: 1", "kernel: k", "target: sm_90a", section, "roles: {r: {warps: 1}}"]
    if "queues" not in section:
        lines.append("queues: {w: cp_async}")
    text = "\n".join([*lines, "program: {r: [" + statement + "]}"]) + "\n"
    family, found = decode_text(text, "k.yaml")
    assert family is None and [item.code for item in found] == ["TTN008"]


@pytest.mark.parametrize("space", ["shared", "tensor", "global", "register"])
def test_a_base_is_a_place_in_shared_memory(space: str):
    """Elsewhere it was read as nothing, and accumulators that overlap passed for ones that do
    not."""
    lines = ["titan: 1", "kernel: k", "target: sm_100a", "roles: {r: {warps: 1}}"]
    lines.append("buffers: {A: {space: " + space + ", bytes: 64, base: 128}}")
    _, found = decode_text("\n".join([*lines, "program: {r: []}"]) + "\n", "k.yaml")
    assert [item.code for item in found] == ([] if space == "shared" else ["TTN017"])
