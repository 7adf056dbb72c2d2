"""Manifests of probes and litmus tests as the runner reads them, as types; also `Sizes`.

Only types stand here; what comes from a file is checked where it is read. Sizes of a launch go by
name, in elements. The manifest of a package: `titan/codegen/tile/manifest.py`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from titan.codegen.tile.manifest import LaunchManifest

Sizes = dict[str, int]


class ProbeReading(TypedDict):
    """One possible answer of a probe: the condition over the counters, and what it would mean."""

    when: str
    answer: str
    means: str


class ProbeManifest(LaunchManifest):
    """The manifest of a probe (litmus/probes)."""

    probe: str
    facts: list[str]
    asks: str
    sizes: Sizes
    counters: list[str]
    readings: list[ProbeReading]


class OutcomeWord(TypedDict):
    """One observed register or location: what it means, and the values that the test knows."""

    means: str
    values: list[int]


class OutcomesEntry(TypedDict):
    """How outcomes are numbered: words by digits of mixed radix; the bucket of the rest."""

    words: list[OutcomeWord]
    buckets: int
    incomplete_bucket: int


class WordReference(TypedDict):
    """An observed word within a condition, from 1."""

    word: int


class ConditionTree(TypedDict, total=False):
    """A condition: either a connective with parts, or a relation with two terms."""

    connective: str
    parts: list[ConditionTree]
    relation: str
    left: int | WordReference
    right: int | WordReference


class ReadingEntry(TypedDict):
    """What one reading of the model allows; None where the list would be too long."""

    allowed: list[list[int | None]] | None


class VerdictEntry(TypedDict):
    """The model's verdict: readings from the strictest to the most generous."""

    readings: list[ReadingEntry]
    complete: NotRequired[bool]


class BufferEntry(TypedDict):
    """Memory that the host allocates, filled with zeros."""

    parameter: str
    bytes: int
    bytes_per_instance: int
    fine_grained: NotRequired[bool]


class KernelParameter(TypedDict):
    """A parameter of the kernels of a litmus test and its role."""

    name: str
    role: str


class PlaceEntry(TypedDict):
    """A place in a buffer."""

    parameter: str
    offset_bytes: int


class SetupStep(TypedDict):
    """What the host does besides allocating; which entries there are depends on `step`."""

    step: str
    parameter: str
    alias_of: NotRequired[str]
    symbol: NotRequired[str]
    dimensions: NotRequired[list[int]]
    type: NotRequired[str]
    box: NotRequired[list[int]]
    swizzle: NotRequired[str]
    address: NotRequired[PlaceEntry]
    offset_bytes: NotRequired[int]


class OptionEntry(TypedDict):
    """A macro of a litmus kernel: its default and its greatest value."""

    default: int
    max: int


class LitmusLaunch(TypedDict):
    """How a litmus test is launched; c11 tests have `rounds` and `spread`, kernels the others."""

    instances: int
    patience: int
    instances_max: NotRequired[int]
    rounds: NotRequired[int]
    spread: NotRequired[int]
    spread_cycles: NotRequired[int]
    stress_rounds: NotRequired[int]
    ctas_per_instance: NotRequired[int]
    clusters_per_instance: NotRequired[int]
    warp_threads: NotRequired[int]
    warps_per_group: NotRequired[int]


class LitmusManifest(TypedDict):
    """The manifest of a rendered litmus test (docs/reference/litmus_kernels.md)."""

    test: str
    source: str
    language: str
    target: str
    targets: NotRequired[list[str]]
    outcomes: OutcomesEntry
    condition: ConditionTree
    filter: NotRequired[ConditionTree | None]
    verdict: VerdictEntry
    launch: LitmusLaunch
    kernels: NotRequired[list[str]]
    parameters: NotRequired[list[KernelParameter]]
    buffers: NotRequired[list[BufferEntry]]
    setup: NotRequired[list[SetupStep]]
    options: NotRequired[dict[str, OptionEntry]]
    entry: NotRequired[str]
    compile: NotRequired[list[str]]
