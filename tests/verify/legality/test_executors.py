"""Who may execute what: every operation under every `by`, against a table of its own.

The table is by instruction, from the sentences of PTX and of AMD's instruction sets, and not by
type of operation as the rule is.
"""

import pytest

from titan.language.kernel.decode import decode_text
from titan.verify.legality.check import examine
from titan.verify.lowering import sync_program

HEAD = """
titan: 1
kernel: k
target: {target}
buffers: {{A: {{bytes: 1024, initial: 0}}, D: {{space: tensor, bytes: 1024}}}}
barriers: {{b: 1}}
queues: {{out: {bulk}, g: {matrix}, c: {copies}}}
roles: {{w: {{{threads}}}}}
program:
  w:
    - {{{statement}, by: {by}}}
"""
NVIDIA = {"bulk": "bulk", "matrix": "wgmma", "copies": "cp_async"}
BLACKWELL = NVIDIA | {"matrix": "tcgen05"}
AMD = {"bulk": "vmcnt", "matrix": "lgkmcnt", "copies": "vmcnt"}
ONE, EACH, ANY = {"thread"}, {"all"}, {"thread", "warp", "all"}
STATEMENTS = [
    ("sm_90a", NVIDIA, "bulk_load: A, completes: b", ONE),
    ("sm_90a", NVIDIA, "bulk_store: A, queue: out", ONE),
    ("sm_90a", NVIDIA, "commit: out", ONE),
    ("sm_90a", NVIDIA, "drain: out", ONE),
    ("sm_90a", NVIDIA, "expect: b, bytes: 16", ONE),
    ("sm_90a", NVIDIA, "arrive: b, bytes: 16", ONE),
    ("sm_90a", NVIDIA, "init: b", ONE),
    ("sm_90a", NVIDIA, "mma: A, queue: g", EACH),
    ("sm_90a", NVIDIA, "commit: g", EACH),
    ("sm_90a", NVIDIA, "drain: g", EACH),
    ("sm_90a", NVIDIA, "cp_async: A, queue: c", EACH),
    ("sm_90a", NVIDIA, "drain: c", EACH),
    ("sm_90a", NVIDIA, "arrive: b", ANY),
    ("sm_90a", NVIDIA, "wait: b, phase: 0", ANY),
    ("sm_90a", NVIDIA, "load: A", ANY),
    ("sm_90a", NVIDIA, "store: A", ANY),
    ("sm_90a", NVIDIA, "fence: async", ANY),
    ("sm_100a", BLACKWELL, "mma: A, into: D, queue: g", ONE),
    ("sm_100a", BLACKWELL, "commit: g, arrives: b", ONE),
    ("gfx942", AMD, "cp_async: A, queue: c", EACH),
    ("gfx942", AMD, "drain: c", EACH),
    ("gfx942", AMD, "load: A", EACH),
]


def _unfit(target, queues, statement, by, threads):
    text = HEAD.format(target=target, statement=statement, by=by, threads=threads, **queues)
    family, errors = decode_text(text)
    assert family is not None, errors
    kernel = family.kernels[0]
    found = examine(kernel, sync_program(kernel).program).errors
    return "TTN433" in {item.code for item in found}


@pytest.mark.parametrize("by", sorted(ANY))
@pytest.mark.parametrize(
    ("target", "queues", "statement", "fitting"),
    STATEMENTS,
    ids=[f"{row[0]}-{row[2]}" for row in STATEMENTS],
)
def test_by_fits_the_instruction(target, queues, statement, fitting, by):
    threads = "warps: 4, agents: 1" if target == "gfx942" else "warpgroups: 1"
    assert _unfit(target, queues, statement, by, threads) == (by not in fitting)
    assert not _unfit(target, queues, statement, by, "threads: 1")
