"""The library of protocols: each verifies for any number of its open sizes, and no variant does.

The verdict for any number is the explorer's quotient. It is compared with the explorer at given
sizes and with the happens-before engine, which have no quotient, for all sizes up to a bound.

One defect may be met first as a race, as a stale read, or as an access to what is in flight,
whichever interleaving a search finds first; the same holds for the ways in which a barrier's phases
get out of step. Such rules stand for one another here, all others only for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.protocols.variants import VARIANTS, Broken
from titan.engines.explore.search import explore
from titan.engines.happens_before import engine as order
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync.program import SyncProgram
from titan.verify.lowering import sync_program
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel
from titan.verify.sizes import Values, depth_of, size_sets

LIBRARY = Path(__file__).parents[2] / "protocols"
NAMES = sorted(path.stem for path in LIBRARY.glob("*.yaml"))
# The sizes that are open, with their least values: the verdict covers every number from there on.
OPEN: dict[str, dict[str, int]] = {
    "ampere_gemm_multistage": {"tiles": 0},
    "blackwell_gemm": {"work": 0},
    "bulk_copy": {"tiles": 0},
    "fa3_backward": {"blocks": 0},
    "fa3_forward": {"blocks": 1},
    "fa4_forward": {"blocks": 1},
    "grouped_gemm": {"problems": 0, "k_tiles": 1},
    "hopper_gemm": {"tiles": 0},
    "hopper_gemm_multicast": {"tiles": 0},
    "hopper_gemm_persistent": {"work": 0, "k_tiles": 1},
    "hopper_gemm_pingpong": {"work": 0},
    "mi300_gemm": {"tiles": 0},
    "mi300_pingpong": {"tiles": 0},
    "split_k_cluster": {"first": 0, "second": 0},
}
# The sizes that a file sweeps: one kernel each.
SWEPT = {"blackwell_gemm": 3, "hopper_gemm_pingpong": 3}
CLASSES = [
    frozenset({"TTN201", "TTN202", "TTN203", "TTN204"}),
    frozenset({"TTN206", "TTN207", "TTN212", "TTN216"}),
]
COMMENT = re.compile(r" +#.*$", re.MULTILINE)
CASES = [(name, broken) for name in NAMES for broken in VARIANTS[name]]


def kernels_of(text: str, name: str) -> tuple[Kernel, ...]:
    family, diagnostics = decode_text(text, f"{name}.yaml")
    assert family is not None, [(item.code, item.headline) for item in diagnostics]
    return family.kernels


def library_kernels(name: str) -> tuple[Kernel, ...]:
    return kernels_of((LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"), name)


def verdict(kernel: Kernel, seconds: float = 8.0, require: str = "bounded") -> Finding:
    return verify_kernel(
        kernel,
        VerifyOptions(save_traces=None, states_max=2_000_000, seconds_max=seconds, require=require),
    )


@pytest.mark.parametrize("name", NAMES)
def test_verifies_for_any_number(name: str) -> None:
    kernels = library_kernels(name)
    assert len(kernels) == SWEPT.get(name, 1)
    for kernel in kernels:
        finding = verdict(kernel, 30.0, require="any")
        assert finding.verdict is Verdict.VERIFIED, (finding.trace, finding.diagnostics)
        assert not finding.diagnostics
        assert finding.coverage.parameters == tuple((size, None) for size in OPEN[name])
        assert dict(finding.coverage.minimums) == OPEN[name]
        judged = {report.engine: report.verdict for report in finding.engines}
        assert judged["explorer"] is judged["happens-before"] is Verdict.VERIFIED


def bounded_sizes(program: SyncProgram, turns: int = 3) -> Iterator[Values]:
    """All sizes up to so many turns of the deepest ring and 2, and all combinations of two."""
    last = turns * depth_of(program) + 2
    free = [size for size in program.parameters if size.value is None]
    for chosen in product(*(range(size.minimum, last + 1) for size in free)):
        yield {size.name: value for size, value in zip(free, chosen, strict=True)}


def agree(program: SyncProgram, sizes: Values, budget: Budget) -> None:
    explored = explore(program, sizes, budget)
    assert explored.verdict is Verdict.VERIFIED, (sizes, explored)
    ordered = order.analyse(program, sizes)
    assert ordered.verdict is Verdict.VERIFIED, (sizes, ordered)


@pytest.mark.parametrize("name", NAMES)
def test_bounded_engines_agree_up_to_three_turns(name: str) -> None:
    for kernel in library_kernels(name):
        program = sync_program(kernel).program
        for sizes in bounded_sizes(program):
            agree(program, sizes, Budget(1_000_000, 10.0))


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_bounded_engines_agree_on_more_sizes(name: str) -> None:
    """Twice as far, and numbers that differ from turn to turn."""
    for kernel in library_kernels(name):
        program = sync_program(kernel).program
        for sizes in [*bounded_sizes(program, 6), *size_sets(program)]:
            agree(program, sizes, Budget(20_000_000, 120.0))


@pytest.mark.parametrize(("name", "broken"), CASES, ids=lambda case: getattr(case, "what", case))
def test_broken_variant(name: str, broken: Broken) -> None:
    text = COMMENT.sub("", (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"))
    assert text.count(broken.old) == broken.times
    finding = verdict(kernels_of(text.replace(broken.old, broken.new), name)[-1])
    assert finding.verdict is Verdict.REFUTED, finding.engines
    found = {item.code for item in finding.diagnostics if item.severity.value == "error"}
    if finding.trace is not None:
        found.add(finding.trace.fault.kind.value)
    allowed = set(broken.codes).union(*(same for same in CLASSES if same & broken.codes))
    assert found and found <= allowed, (found, finding.trace and finding.trace.fault.message)


def test_every_protocol_has_variants_and_open_sizes() -> None:
    assert set(VARIANTS) == set(NAMES) == set(OPEN)
    assert all(len(variants) >= 3 for variants in VARIANTS.values())
