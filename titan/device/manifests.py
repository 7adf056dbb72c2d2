"""Manifests of packages, probes and litmus tests as the runner reads them, as types.

Only types stand here; what comes from a file is checked where it is read. Sizes of a launch go by
name, in elements.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

Sizes = dict[str, int]


class ParameterEntry(TypedDict):
    """A size that a launch gives; `minimum` 1 where it is not stated."""

    name: str
    minimum: NotRequired[int]


class TensorEntry(TypedDict):
    """An array in global memory: extents are expressions over the sizes, outermost first."""

    name: str
    dtype: str
    shape: list[int | str]
    output: NotRequired[bool]


class ArgumentEntry(TypedDict):
    """An argument of the kernel: a size, a pointer, or a tensor map with its box and swizzle."""

    kind: str
    name: NotRequired[str]
    tensor: NotRequired[str]
    box: NotRequired[list[int]]
    swizzle: NotRequired[str]


class LaunchEntry(TypedDict):
    """Grid as an expression over the sizes and `processors`; block in threads."""

    grid: int | str
    block: int
    dynamic_shared_bytes: int
    cluster: NotRequired[int]


class RoleEntry(TypedDict):
    """A role: its threads follow each other from the first."""

    name: str
    first_thread: int
    threads: int
    registers: NotRequired[int]


class RingEntry(TypedDict):
    """A ring of the pipeline; `depth` in stages."""

    depth: int


class Launchable(TypedDict):
    """What a launch needs of a manifest, be it that of a package or of a probe."""

    source: str
    target: str
    entry: str
    parameters: list[ParameterEntry]
    tensors: list[TensorEntry]
    arguments: list[ArgumentEntry]
    launch: LaunchEntry
    constraints: NotRequired[list[str]]


class PackageManifest(Launchable):
    """`manifest.json` of a package; `program`: see titan/codegen/tile/stored.py."""

    kernel: str
    header: str
    rings: list[RingEntry]
    roles: list[RoleEntry]
    program: dict[str, object]
    trip_count: int | str


class ProbeReading(TypedDict):
    """One possible answer of a probe: the condition over the counters, and what it would mean."""

    when: str
    answer: str
    means: str


class ProbeManifest(Launchable):
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
    warps_per_group: NotRequired[int]


class LitmusManifest(TypedDict):
    """The manifest of a rendered litmus test (docs/reference/litmus_kernels.md)."""

    test: str
    source: str
    language: str
    target: str
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
