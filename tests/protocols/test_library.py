"""The library of protocols: each verifies, and each of its broken variants is refuted.

One defect may be met first as a race, as a stale read, or as an access to what is in flight,
whichever interleaving a search finds first; the same holds for the ways in which a barrier's phases
get out of step. Such rules stand for one another here, all others only for themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.protocols.variants import VARIANTS, Broken
from titan.kernel.decode import decode_text
from titan.kernel.model import Kernel
from titan.verify.model import Finding, Options, Verdict
from titan.verify.pipeline import verify_kernel

LIBRARY = Path(__file__).parents[2] / "protocols"
NAMES = sorted(path.stem for path in LIBRARY.glob("*.yaml"))
# Verified for every number of tiles; the others up to the bound that their verdict names.
ANY_SIZE = {
    "ampere_gemm_multistage",
    "fa3_forward",
    "fa4_forward",
    "hopper_gemm",
    "hopper_gemm_multicast",
    "mi300_gemm",
    "mi300_pingpong",
}
SECONDS = {"blackwell_gemm": 16.0}
CLASSES = [
    frozenset({"TTN201", "TTN202", "TTN203", "TTN204"}),
    frozenset({"TTN206", "TTN207", "TTN212"}),
]
COMMENT = re.compile(r" +#.*$", re.MULTILINE)
CASES = [(name, broken) for name in NAMES for broken in VARIANTS[name]]


def kernels_of(text: str, name: str) -> tuple[Kernel, ...]:
    family, diagnostics = decode_text(text, f"{name}.yaml")
    assert family is not None, [(item.code, item.headline) for item in diagnostics]
    return family.kernels


def verdict(kernel: Kernel, seconds: float = 4.0) -> Finding:
    return verify_kernel(
        kernel, Options(save_traces=None, states_max=2_000_000, seconds_max=seconds)
    )


@pytest.mark.parametrize("name", NAMES)
def test_verifies(name: str) -> None:
    text = (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    for kernel in kernels_of(text, name):
        finding = verdict(kernel, SECONDS.get(name, 4.0))
        assert finding.verdict is Verdict.VERIFIED, (finding.trace, finding.diagnostics)
        assert not finding.diagnostics
        assert all(values is None or len(values) > 0 for _, values in finding.coverage.parameters)
        if name in ANY_SIZE:
            assert all(values is None for _, values in finding.coverage.parameters)


@pytest.mark.parametrize(("name", "broken"), CASES, ids=lambda case: getattr(case, "what", case))
def test_broken_variant(name: str, broken: Broken) -> None:
    text = COMMENT.sub("", (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"))
    assert text.count(broken.old) == broken.times
    finding = verdict(kernels_of(text.replace(broken.old, broken.new), name)[-1], 8.0)
    assert finding.verdict is Verdict.REFUTED, finding.engines
    found = {item.code for item in finding.diagnostics if item.severity.value == "error"}
    if finding.trace is not None:
        found.add(finding.trace.fault.kind.value)
    allowed = set(broken.codes).union(*(same for same in CLASSES if same & broken.codes))
    assert found and found <= allowed, (found, finding.trace and finding.trace.fault.message)


def test_every_protocol_has_variants() -> None:
    assert set(VARIANTS) == set(NAMES)
    assert all(len(variants) >= 3 for variants in VARIANTS.values())
