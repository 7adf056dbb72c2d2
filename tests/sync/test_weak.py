"""Where synchronisation may carry no visibility, happens-before sets the scope of a verdict."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync.weak import may_be_weak
from titan.verify import judge
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

LATE = """\
titan: 1
kernel: relaxed_once
target: sm_90a
sizes: {tiles: any}
buffers:
  A: {bytes: 64}
barriers:
  full: {count: 1}
  empty: {count: 1}
roles:
  writer: {warps: 1}
  reader: {warps: 1}
program:
  writer:
    - for: t in 0..tiles
      do:
        - wait: empty
          phase: t - 1
        - store: A = t
        - if: t == 40
          then:
            - {arrive: full, order: relaxed}
          else:
            - arrive: full
  reader:
    - for: t in 0..tiles
      do:
        - wait: full
          phase: t
        - load: A = t
        - arrive: empty
"""
COPIES = """\
titan: 1
kernel: store_and_copy
target: sm_90a
sizes: {tiles: any}
buffers:
  A: {bytes: 64}
  x: {bytes: 64}
barriers:
  full: {count: 1}
  empty: {count: 1}
roles:
  writer: {warps: 1}
  reader: {warps: 1}
program:
  writer:
    - for: t in 0..tiles
      do:
        - wait: empty
          phase: t - 1
        - if: t == 40
          then:
            - {arrive: full, bytes: 64}
            - store: x = t
          else:
            - store: x = t
            - {arrive: full, bytes: 64}
        - bulk_load: A = t
          completes: full
  reader:
    - for: t in 0..tiles
      do:
        - wait: full
          phase: t
        - load: x = t
        - load: A = t
        - fence: async
        - arrive: empty
"""
PAIR = """\
titan: 1
kernel: pair
target: sm_90a
ctas: 2
barriers:
  b: {count: 2, cta: 0}
named_barriers:
  end: {scope: cluster, threads: 64}
roles:
  near: {warps: 1, cta: 0}
  far: {warps: 1, cta: 1}
program:
  near:
    - arrive: b
    - {wait: b, phase: 0, scope: cluster}
    - sync: end
  far:
    - {arrive: "b[0]@0", scope: cluster}
    - sync: end
"""


def kernel_of(text: str) -> Kernel:
    family, diagnostics = decode_text(text, "kernel.yaml")
    assert family is not None, [item.headline for item in diagnostics]
    return family.kernels[0]


def test_a_relaxed_arrival_beyond_the_bound_is_not_said_to_be_covered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = VerifyOptions(save_traces=None, seconds_max=10.0)
    finding = verify_kernel(kernel_of(LATE), options)
    assert finding.verdict is Verdict.REFUTED and finding.trace is not None
    assert finding.trace.fault.kind.value == "TTN305"
    monkeypatch.setattr(judge, "FAR_STEPS", 0)  # the number that the text names is not tried
    finding = verify_kernel(kernel_of(LATE), options)
    assert finding.verdict is Verdict.VERIFIED
    ((name, values),) = finding.coverage.parameters
    assert name == "tiles" and values is not None and max(values) < 40
    required = VerifyOptions(save_traces=None, seconds_max=10.0, require="any")
    assert verify_kernel(kernel_of(LATE), required).verdict is Verdict.UNDECIDED
    explored = VerifyOptions(save_traces=None, seconds_max=10.0, engine="explore")
    assert verify_kernel(kernel_of(LATE), explored).verdict is Verdict.UNDECIDED
    plain = verify_kernel(kernel_of(LATE.replace(", order: relaxed", "")), options)
    assert plain.verdict is Verdict.VERIFIED and plain.coverage.parameters == (("tiles", None),)


def test_it_is_refuted_where_the_bound_reaches_it() -> None:
    options = VerifyOptions(save_traces=None, overrides=(("tiles", (41,)),), seconds_max=10.0)
    family, _ = decode_text(LATE.replace("tiles: any", "tiles: 41"), "kernel.yaml")
    assert family is not None
    finding = verify_kernel(family.kernels[0], options)
    assert finding.verdict is Verdict.REFUTED
    assert finding.trace is not None and finding.trace.fault.kind == "TTN305"


def test_a_store_behind_the_arrival_is_not_said_to_be_published_by_the_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = VerifyOptions(save_traces=None, seconds_max=10.0)
    assert verify_kernel(kernel_of(COPIES), options).verdict is Verdict.REFUTED
    monkeypatch.setattr(judge, "FAR_STEPS", 0)  # the number that the text names is not tried
    finding = verify_kernel(kernel_of(COPIES), options)
    assert finding.verdict is Verdict.VERIFIED
    ((name, values),) = finding.coverage.parameters
    assert name == "tiles" and values is not None and max(values) < 40
    required = VerifyOptions(save_traces=None, seconds_max=10.0, require="any")
    assert verify_kernel(kernel_of(COPIES), required).verdict is Verdict.UNDECIDED
    early = kernel_of(COPIES.replace("t == 40", "t == 0"))
    finding = verify_kernel(early, options)
    assert finding.verdict is Verdict.REFUTED
    assert finding.trace is not None and finding.trace.fault.kind == "TTN305"
    never = verify_kernel(kernel_of(COPIES.replace("t == 40", "t < 0")), options)
    assert never.verdict is Verdict.VERIFIED and never.coverage.parameters == (("tiles", None),)


@pytest.mark.parametrize(
    ("old", "new", "weak"),
    [
        ("arrive: b\n", "arrive: b\n", False),
        ("phase: 0, scope: cluster", "phase: 0", True),
        ('"b[0]@0", scope: cluster', '"b[0]@0"', True),
        ("arrive: b\n", "{arrive: b, order: relaxed}\n", True),
    ],
)
def test_what_may_be_weak(old: str, new: str, weak: bool) -> None:
    assert old in PAIR
    program = kernel_of(PAIR.replace(old, new)).program
    assert program is not None
    assert may_be_weak(program) is weak
