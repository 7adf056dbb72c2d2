"""Copies that complete in several places: a wait in one of them says nothing of the others."""

from __future__ import annotations

import pytest

import titan
from tests.agreement.engines import engines, reference
from tests.verify.legality.kernels import kernel_of
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.destinations import apart
from titan.sync.fault import FaultKind
from titan.verify.lowering import sync_program

MULTICAST = """
titan: 1
kernel: two_places
target: {target}
ctas: 2
roles: {{w: {{threads: 1}}}}
named_barriers: {{c: {{scope: cluster}}}}
buffers: {{A: {{bytes: 16}}}}
barriers: {{f: {{count: 1}}}}
program:
  w:
    - {{arrive: f, bytes: 16}}
    - sync: c
    - if: cta == 0
      then:
        - {copy}
{zero}
      else:
{one}
    - sync: c
"""
COPIES = {
    "a multicast": ("sm_90a", "{bulk_load: A = 0, completes: f, multicast: [0, 1]}"),
    "a multicast to all": ("sm_90a", "{bulk_load: A = 0, completes: f, multicast: all}"),
    "two copies of a statement": (
        "sm_90a", '{bulk_load: "A@0 = 0, A@1 = 0", completes: "f@0, f@1", bytes: 16}'),
    "an answer for both": (
        "sm_100a", '{async: {writes: "A@0 = 0, A@1 = 0", completes: "f@0, f@1", bytes: 16}}'),
}  # fmt: skip
OWN = "- {wait: f, phase: 0}"
USES = {  # by CTA 0 and by CTA 1, and what the first fault of it may be
    "reads its own": ((OWN, "- load: A = 0"), (OWN, "- load: A = 0"), None),
    "reads the other's": ((OWN, "- load: A@1 = 0"), (OWN,), {FaultKind.READ_BEFORE_ARRIVAL}),
    "overwrites the other's": (
        (OWN, "- store: A@1 = 1"), (OWN,), {FaultKind.OVERWRITE_IN_FLIGHT}),
    "reads the other's behind its wait": (
        (OWN, "- sync: c", "- load: A@1 = 0"), (OWN, "- sync: c"), None),
}  # fmt: skip


def text_of(copy: str, use: str) -> str:
    target, statement = COPIES[copy]
    zero, one, _ = USES[use]
    lines = ["\n".join(f"        {line}" for line in arm) for arm in (zero, one)]
    return MULTICAST.format(target=target, copy=statement, zero=lines[0], one=lines[1])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("copy", COPIES)
def test_each_place_is_waited_for_by_itself(copy: str, use: str):
    finding = titan.verify(text_of(copy, use))[0]
    faults = USES[use][2]
    assert finding.verdict is (Verdict.VERIFIED if faults is None else Verdict.REFUTED)
    if faults is not None:
        assert finding.trace is not None and finding.trace.fault.kind in faults


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("copy", COPIES)
def test_all_engines_agree(copy: str, use: str):
    program = sync_program(kernel_of(text_of(copy, use))).program
    expected = reference(program).verdict
    assert expected is (Verdict.VERIFIED if USES[use][2] is None else Verdict.REFUTED)
    for name, engine in engines().items():
        assert engine(program).verdict is expected, name


@pytest.mark.parametrize(
    ("waits", "verdict"),
    [("a", Verdict.REFUTED), ("b", Verdict.VERIFIED)],
)
def test_barriers_belong_to_buffers_in_their_order(waits: str, verdict: Verdict):
    finding = titan.verify(
        f"""
titan: 1
kernel: two_copies
target: sm_90a
roles: {{w: {{threads: 1}}}}
buffers: {{A: {{bytes: 16}}, B: {{bytes: 16}}}}
barriers: {{a: {{count: 1}}, b: {{count: 1}}}}
program:
  w:
    - {{arrive: "a, b", bytes: 16}}
    - {{bulk_load: "A = 0, B = 0", completes: "a, b", bytes: 16}}
    - {{wait: {waits}, phase: 0}}
    - load: B = 0
    - {{wait: {"b" if waits == "a" else "a"}, phase: 0}}
"""
    )[0]
    assert finding.verdict is verdict


def asynchronous(program: ir.SyncProgram) -> list[ir.Asynchronous]:
    found = (item for role in program.roles for item in ir.walk(role.body))
    return [item for item in found if isinstance(item, ir.Asynchronous)]


def test_what_completes_on_one_barrier_stays_whole():
    text = """
titan: 1
kernel: one_barrier
target: sm_90a
roles: {w: {threads: 1}}
buffers: {A: {bytes: 16}, B: {bytes: 16}}
barriers: {a: 1}
program:
  w:
    - {bulk_load: "A = 0, B = 0", completes: a, bytes: 32}
"""
    program = kernel_of(text).program
    assert program is not None and apart(program) is program


def test_nothing_of_a_copy_is_lost():
    """Writes and completions are those of the copy, each once; what is read is read by all."""
    program = kernel_of(text_of("a multicast", "reads its own")).program
    assert program is not None
    (whole,) = (item for item in asynchronous(program) if len(item.completes) == 2)
    parts = [item for item in asynchronous(apart(program)) if item.completes]
    assert [done for item in parts for done in item.completes] == list(whole.completes)
    written = [effect for item in parts for effect in item.effects if effect.write]
    assert written == [effect for effect in whole.effects if effect.write]
    assert apart(apart(program)) == apart(program)
