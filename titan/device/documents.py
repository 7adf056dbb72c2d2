"""Result files of the runner as types of JSON objects: rows and the documents around them.

Pages are rendered from them, so that a run and a file read back look the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from titan.device.manifests import Sizes
from titan.device.records import BatchCounts, DeviceFacts


class OutcomeRow(TypedDict):
    """An outcome that was counted; `asked`: whether the condition of the test holds in it."""

    values: list[int | None]
    count: int
    state: str
    asked: bool


class LitmusTestRow(TypedDict):
    """One litmus test of a result file."""

    test: str
    file: str
    state: str
    instances: int
    seconds: float
    per_second: int
    batches: int
    seeds: list[int]
    error: NotRequired[str]
    words: NotRequired[list[str]]
    outcomes: NotRequired[list[OutcomeRow]]
    allowed_but_unseen: NotRequired[list[list[int | None]]]
    incomplete: NotRequired[int]


class ProbeRow(TypedDict):
    """What a probe answered."""

    probe: str
    facts: Sequence[str]
    asks: str
    state: str
    answer: str
    means: str
    counters: dict[str, int]
    message: str


class LitmusDocument(TypedDict):
    """A litmus run."""

    kind: str
    date: str
    device: DeviceFacts
    instances: int
    findings: list[str]
    tests: list[LitmusTestRow]
    probes: NotRequired[list[ProbeRow]]
    left_out: NotRequired[list[str]]


class ProbesDocument(TypedDict):
    """A run of the probes."""

    kind: str
    date: str
    device: DeviceFacts
    probes: list[ProbeRow]


class StallRow(TypedDict):
    """Cycles that a role waited at barriers under one policy."""

    policy: str
    role: str
    cycles: int
    waits: int
    cycles_each: NotRequired[float | None]
    delay_cycles: NotRequired[int]
    delays: NotRequired[int]
    delay_each: NotRequired[float]


class ImbalancePoint(TypedDict):
    """One amount of a delay: its cycles after a wait, and those that the producer waits."""

    amount: int
    delay_cycles: float | None
    producer_cycles: float | None


class ImbalanceRow(TypedDict):
    """One knob of the delay with its points."""

    knob: str
    points: list[ImbalancePoint]


class PolicyCounts(TypedDict):
    """Runs under one policy, and those that were seen to fail."""

    runs: int
    seen_to_fail: int


class StressRow(TypedDict):
    """One package and variant of a stress run."""

    package: str
    depth: int
    variant: str
    runs: int
    trips: list[int]
    states: dict[str, int]
    seen_to_fail: int
    first: str
    policies: dict[str, PolicyCounts]
    stalls: list[StallRow]
    imbalance: list[ImbalanceRow]


class StressFailure(TypedDict):
    """A run in which a safe kernel failed."""

    package: str
    variant: str
    sizes: Sizes
    depth: int
    seed: int
    policy: str
    state: str
    message: str


class SkippedRow(TypedDict):
    """Runs that the time did not reach."""

    package: str
    depth: int
    variant: str
    runs: int
    policies: list[str]


class StressDocument(TypedDict):
    """A stress run."""

    kind: str
    date: str
    device: DeviceFacts
    runs: int
    not_run: int
    safe_failures: list[StressFailure]
    unsafe_variants: int
    unsafe_seen_to_fail: int
    skipped: list[SkippedRow]
    left_out: NotRequired[int]
    rows: list[StressRow]


class TimedRow(TypedDict):
    """One package at one size (`titan.device.bench.BenchRow`); None where nothing is known."""

    package: str
    target: str
    sizes: Sizes
    state: str
    seconds: float | None
    teraflops: float | None
    gigabytes: float | None
    peer: str
    peer_seconds: float | None
    ratio: float | None
    predicted_cycles: int | None
    measured_cycles: float | None
    steady_cycles: float | None
    tail_share: float | None
    wave_share: float | None
    occupancy: float | None
    registers: int | None
    spilled_bytes: int | None
    shared_bytes: int | None
    fences: int | None
    barriers: int | None
    message: str


class VariantRow(TimedRow):
    """A timed row of a variant: which decision differs, and its speed against the product."""

    axis: str
    setting: str
    about: str
    shape: str
    compiled: object
    against_product: NotRequired[float | None]


class BenchDocument(TypedDict):
    """A bench run."""

    kind: str
    date: str
    device: DeviceFacts
    rows: list[TimedRow]
    ablations: NotRequired[list[VariantRow]]


class VariantsDocument(TypedDict):
    """Variants side by side."""

    kind: str
    date: str
    device: DeviceFacts
    rows: list[VariantRow]


class CycleData(TypedDict):
    """Cycles of one iteration in the steady state (`titan.device.cycles.CycleRow`)."""

    package: str
    target: str
    depth: int
    state: str
    trips: Sequence[int]
    spans: Sequence[int]
    cycles: float | None
    tail_cycles: float | None
    terms: dict[str, float]
    message: str


class CyclesDocument(TypedDict):
    """Cycles of all variants."""

    kind: str
    date: str
    device: DeviceFacts
    rows: list[CycleData]


class RateEntry(TypedDict):
    """A number of `rates.yaml` that a term depends on; `kind`: rate, cost or latency."""

    value: float
    kind: str


Rates = Mapping[str, Mapping[str, RateEntry]]  # by term, then by path in rates.yaml


class VariantEntry(TypedDict):
    """A variant of the index `ablations.json`; `folder` None where it was not built."""

    kernel: str
    target: str
    axis: str
    setting: str
    folder: str | None
    reason: NotRequired[str]
    about: NotRequired[str]
    shape: NotRequired[str]
    compiled: NotRequired[object]
    depth: NotRequired[int]
    terms: NotRequired[dict[str, float]]
    rates: NotRequired[Rates]


class FittedRate(TypedDict):
    """A number of the machine description and what fits the measurements."""

    was: float
    fits: float


class TermRow(TypedDict):
    """One term of the machine model after the fit."""

    term: str
    state: str
    scale: float | None
    standard_error: float | None
    at_most: float | None
    measurements: int
    alike: list[str]


class ResidualRow(TypedDict):
    """Cycles of one kernel: measured, by the description, and by the fit."""

    kernel: str
    measured: float
    before: float
    after: float
    binding: str
    relative: float


class FittedMachine(TypedDict):
    """A machine description fitted to measurements."""

    titan: str
    kind: str
    machine: str
    date: str
    device: DeviceFacts
    overhead_cycles: float | None
    terms: list[TermRow]
    rates: dict[str, FittedRate]
    error_before: float | None
    error_after: float | None
    residuals: list[ResidualRow]
    remarks: list[str]


class ShareRow(TypedDict, total=False):
    """The time that a part of the suite was given and took."""

    given_seconds: float
    taken_seconds: float


class SuiteDocument(TypedDict):
    """A run of the whole suite."""

    kind: str
    date: str
    device: DeviceFacts
    stress: StressDocument
    bench: BenchDocument
    ablations: NotRequired[VariantsDocument]
    cycles: NotRequired[CyclesDocument]
    machines: NotRequired[list[FittedMachine]]
    probes: NotRequired[ProbesDocument]
    left_out: NotRequired[dict[str, list[str]]]
    shares: NotRequired[dict[str, ShareRow]]


class FindingRecord(TypedDict):
    """`finding.json`; a finding of stress has the middle entries, one of litmus the last."""

    titan: str
    finding: str
    of: str
    date: str
    device: DeviceFacts
    files: dict[str, str]
    backend: NotRequired[str]
    sizes: NotRequired[Sizes]
    seed: NotRequired[int]
    policy: NotRequired[str]
    manifest: NotRequired[str]
    batches: NotRequired[list[BatchCounts]]
    scale: NotRequired[float]
    most: NotRequired[int]


Document = (
    LitmusDocument
    | StressDocument
    | BenchDocument
    | ProbesDocument
    | VariantsDocument
    | SuiteDocument
)
