"""What the runner asks a child for, and what the child reports, as types of JSON objects.

Seconds and cycles are named as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NotRequired, Protocol, TypedDict

from titan.device.manifests import Sizes

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


NOT_RUN = "not run"  # the state of a kernel that could not be started: no verdict on it
MESSAGE_CHARACTERS = 300


class DeviceFacts(TypedDict, total=False):
    """The device or machine that results are from; a CPU has only the first four."""

    name: str
    backend: str
    cores: int | None
    machine: str
    count: int
    names: list[str]
    compute_capability: str
    architecture: str
    xcds: int
    multiprocessors: int
    clock_khz: int
    memory_clock_khz: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_multiprocessor: int
    warps_per_multiprocessor: int
    driver: int
    runtime: int
    nvrtc: str
    cupy: str


class RunCase(TypedDict):
    """One run of a package: sizes, seed of inputs and of the disturbance, policy or level."""

    sizes: Sizes
    seed: int
    policy: str


class Job(TypedDict, total=False):
    """What a child is asked for; `kind` says which entries there are (titan/device/child.py)."""

    kind: str
    backend: str
    manifest: str
    manifests: list[str]
    seconds: float
    seed: int
    scale: float
    most: int
    only: int
    folder: str
    variant: str
    policy: str
    sizes: list[Sizes]
    cases: list[RunCase]
    launches: int
    program: dict[str, object]
    tasks: list[tuple[str, str]]
    policies: Sequence[str] | None
    keep: str
    binaries: str
    cache: str
    progress: str


class WaitRow(TypedDict):
    """What one role waited at barriers: cycles, waits, and the delay that came on top."""

    role: str
    cycles: int
    waits: int
    cycles_each: float | None
    delay_cycles: NotRequired[int]
    delays: NotRequired[int]


class WarpProgress(TypedDict):
    """Where a warp was last seen."""

    cta: int
    warp: int
    role: str
    state: str
    barrier: str
    stage: int
    parity: int
    turn: int


class Progress(TypedDict, total=False):
    """Where the warps of a kernel that hangs were last seen; empty without records."""

    warps: list[WarpProgress]
    more: int


class KernelResources(TypedDict):
    """What a CTA takes, and how many CTAs a multiprocessor holds at once."""

    registers: int
    spilled_bytes: int
    shared_bytes: int
    ctas_per_multiprocessor: int
    warps_per_cta: int


class BeginRecord(TypedDict):
    """A part of the job begins; what a child that hangs was at."""

    kind: Literal["begin"]
    sizes: NotRequired[Sizes]
    manifest: NotRequired[str]


class BatchCounts(TypedDict):
    """Outcomes of one batch of a litmus test by bucket."""

    kind: Literal["counts"]
    histogram: list[int]
    seed: int
    spread: int
    seconds: float
    number: NotRequired[int]
    options: NotRequired[dict[str, int]]


class OverRecord(TypedDict):
    """One of several tests is over; `stop`: the device may be in disorder behind it."""

    kind: Literal["over"]
    error: str
    stop: bool


class RunRecord(TypedDict):
    """One run of a package: correct, wrong or fault; `error` in tolerances."""

    kind: Literal["run"]
    sizes: Sizes
    state: str
    message: str
    seconds: float
    error: NotRequired[float | str]
    launch: NotRequired[Mapping[str, object]]
    without_progress: NotRequired[str]
    waits: NotRequired[list[WaitRow]]


class TimeRecord(TypedDict):
    """The median time of a launch, of a package with its resources or of a peer by name."""

    kind: Literal["time"]
    sizes: Sizes
    median_seconds: float
    launches: int
    least_seconds: NotRequired[float]
    grid: NotRequired[int]
    peer: NotRequired[str]
    registers: NotRequired[int]
    spilled_bytes: NotRequired[int]
    shared_bytes: NotRequired[int]
    ctas_per_multiprocessor: NotRequired[int]
    warps_per_cta: NotRequired[int]


class CyclesRecord(TypedDict):
    """Cycles from the first to the last wait of a CTA."""

    kind: Literal["cycles"]
    sizes: Sizes
    span_cycles: int


class CountersRecord(TypedDict):
    """Counters of a probe by name."""

    kind: Literal["counters"]
    counters: dict[str, int]


class CompiledRecord(TypedDict):
    """Machine code now lies in the cache."""

    kind: Literal["compiled"]
    folder: NotRequired[str]
    variant: NotRequired[str]
    manifest: NotRequired[str]
    count: NotRequired[int]


class FactsRecord(DeviceFacts):
    """The device, as a record."""

    kind: Literal["facts"]


class EndRecord(TypedDict):
    """The last record of a job, made by the parent: done, failed or hung."""

    kind: Literal["end"]
    state: str
    seconds: NotRequired[float]
    code: NotRequired[int]
    error: NotRequired[str]
    last: NotRequired[Mapping[str, object]]
    progress: NotRequired[Progress]


Record = (
    BeginRecord
    | BatchCounts
    | OverRecord
    | RunRecord
    | TimeRecord
    | CyclesRecord
    | CountersRecord
    | CompiledRecord
    | FactsRecord
    | EndRecord
)


class WatchOptions(TypedDict, total=False):
    """Options of the watchdog that every part passes on: the child's command, the one device."""

    command: Sequence[str]
    device: str | None


class DevicePointer(Protocol):
    """The address of an array on a device, as CuPy has it."""

    ptr: int


class CupyArray(Protocol):
    """The little of an array of CuPy that the runner uses; elements are bytes by default."""

    @property
    def data(self) -> DevicePointer:
        """Where the array lies."""

    def fill(self, value: int) -> None:
        """Give every element this value."""

    def view(self, dtype: str) -> CupyArray:
        """The same memory as elements of another type."""

    def get(self) -> NDArray[numpy.generic]:
        """A copy in the memory of the host."""

    def __getitem__(self, part: slice) -> CupyArray: ...
