"""An emulated device: NumPy arrays as global memory, launches of PTX with numbers.

Every launch runs to its end before the next one begins. What a kernel leaves unknown in an array
is counted and raises, unless it is asked for. Not emulated: timing, occupancy, reordering of weak
memory (each run is one interleaving, chosen by `seed`), tensor memory of sm_100a.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.isa.numbers.native import CoreOptions, FlatMemory
from titan.isa.numbers.run import Computed, compute
from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import (
    MAP_BYTES,
    Allocation,
    Dimensions,
    Launch,
    LaunchParameter,
    LaunchTensorMap,
    Options,
)
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import find_entry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_ADDRESS = 0x7_0000_0000
ALIGNMENT_BYTES = 1024  # of arrays; guard bytes between them are outside of every allocation
# CUtensorMapDataType by the names of elements
DATA_TYPES = {
    "u8": 0, "e4m3": 0, "e5m2": 0, "ue8m0": 0, "e2m1x2": 0, "u16": 1, "u32": 2, "i32": 3,
    "f16": 6, "f32": 7, "bf16": 9,
}  # fmt: skip
_ENDED = {
    Ending.HUNG: "hangs", Ending.FAULT: "faults", Ending.REFUSED: "is refused",
    Ending.BUDGET: "is cut short",
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


class LaunchError(UserError):
    """A launch that cannot be run, or did not end well; `findings` where the PTX is at fault."""

    def __init__(self, text: str, findings: Sequence[Diagnostic] = ()) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array in global memory. `values` is the host's copy, which launches bring up to date."""

    address: int
    values: NDArray[np.generic]

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return int(self.values.nbytes)


@dataclass(frozen=True, slots=True)
class TiledMap:
    """A tensor map over an array: lists from the innermost dimension outwards; `box` in elements,
    `stride_bytes` of all dimensions but the innermost.
    """

    array: DeviceArray
    dtype: str
    extents: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"


Argument = DeviceArray | TiledMap | int | float


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Grid, block and cluster, and the dynamic shared memory in bytes. `cooperative`: all CTAs of
    the grid are there at once.
    """

    grid: Dimensions
    block: Dimensions
    cluster: Dimensions = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    cooperative: bool = False


@dataclass(slots=True)
class EmulatedDevice:
    """Global memory and a queue of launches that run at once. `seed` chooses the interleaving and
    when asynchronous operations complete; `steps_max` bounds the warp instructions of a launch.
    `exact`: sums of tensor cores to the bit of the published model, else in binary32. `threads`
    of the native core: None for all processors. `schedule` is "turn", "starve" or "ahead" (of one
    warp), `engines` finish "soon", "early", "late" or "random": a correct kernel gives the same
    numbers under all. `cancelled`: how many clusters each cluster obtains by
    clusterlaunchcontrol.try_cancel, those that follow it in the grid, which then do not run.
    """

    seed: int = 0
    steps_max: int = 1 << 40
    exact: bool = False
    threads: int | None = None
    schedule: str = "turn"
    engines: str = "soon"
    cancelled: int = 0
    arrays: list[DeviceArray] = field(default_factory=list)

    def array(self, values: NDArray[np.generic]) -> DeviceArray:
        """A copy of an array in global memory."""
        import numpy as np

        last = self.arrays[-1] if self.arrays else None
        end = FIRST_ADDRESS if last is None else last.address + last.size_bytes + 1
        found = DeviceArray(-(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES,
                            np.ascontiguousarray(values).copy())  # fmt: skip
        self.arrays.append(found)
        return found

    def launch(
        self, module: Module | str, shape: LaunchShape, arguments: Sequence[Argument],
        entry: str | None = None,
    ) -> Computed:  # fmt: skip
        """Run one launch and update the arrays. Raises LaunchError where the PTX cannot be run,
        the run hangs, faults or is refused, or bytes of an array are unknown behind it.
        """
        if isinstance(module, str):
            parsed, findings = parse(module, "kernel.ptx")
            if parsed is None:
                raise LaunchError("the PTX cannot be read", findings)
            module = parsed
        found, findings = find_entry(module, entry)
        if found is None:
            raise LaunchError("the entry is not in the module", findings)
        sizes = [parameter.size_bytes for parameter in found.parameters]
        if len(sizes) != len(arguments):
            raise LaunchError(f"{len(arguments)} arguments for {len(sizes)} parameters")
        maps: dict[bytes, LaunchTensorMap] = {}
        parameters = tuple(
            LaunchParameter(_bytes_of(argument, size, maps))
            for argument, size in zip(arguments, sizes, strict=True)
        )
        launch = Launch(
            found.name, shape.grid, shape.block, shape.cluster, shape.dynamic_shared_bytes,
            parameters, maps, {a.address: _view(a.values) for a in self.arrays},
            tuple(Allocation(a.address, a.size_bytes) for a in self.arrays),
            cancelled=self.cancelled,
        )  # fmt: skip
        running = self._running(launch)
        computed, findings = compute(
            module, launch, Options(running, seed=self.seed, steps_max=self.steps_max),
            asked=CoreOptions(self.exact, self.threads, self.schedule, self.engines),
        )  # fmt: skip
        if computed is None:
            raise LaunchError("the launch cannot be run", findings)
        self._take(computed)
        return computed

    def _running(self, launch: Launch) -> tuple[int, ...] | None:
        """The CTAs that run where others are cancelled; None for all."""
        if not self.cancelled:
            return None
        width, size = launch.grid[0], launch.cluster[0] * (self.cancelled + 1)
        if launch.ctas != width or launch.cluster_size != launch.cluster[0] or width % size:
            raise LaunchError(
                f"{width} CTAs along x are not a multiple of {size}: a cluster and the "
                f"{self.cancelled} that it obtains"
            )
        return tuple(cta for cta in range(width) if cta % size < launch.cluster[0])

    def _take(self, computed: Computed) -> None:
        """Bring the arrays up to date. Raises LaunchError."""
        import numpy as np

        outcome = computed.run.outcome
        if outcome.ending is not Ending.FINISHED:
            raise LaunchError(f"the launch {_ENDED[outcome.ending]}: {outcome.reason}")
        flat = computed.memory if isinstance(computed.memory, FlatMemory) else None
        for array in self.arrays:
            if flat is not None:  # the core has written into the array
                data, missing = b"", flat.unknown(array.address, array.size_bytes)
            else:
                data, missing = computed.contents(array.address, array.size_bytes)
            if missing:
                raise LaunchError(
                    f"{missing} of {array.size_bytes} bytes at {array.address:#x} are not known: "
                    "the kernel stores values that this emulation does not compute"
                )
            if flat is None:
                found = np.frombuffer(data, dtype=array.values.dtype)
                array.values[...] = found.reshape(array.values.shape)


def _view(values: NDArray[np.generic]) -> memoryview:
    """The bytes of an array, to be written in place."""
    import numpy as np

    return values.reshape(-1).view(np.uint8).data


def _bytes_of(argument: Argument, size: int, maps: dict[bytes, LaunchTensorMap]) -> bytes:
    """The bytes of a parameter; a tensor map is named by bytes that are its own."""
    match argument:
        case TiledMap():
            name = struct.pack("<QQ", 0x7469746E, len(maps)) + bytes(MAP_BYTES - 16)
            maps[name] = LaunchTensorMap(
                DATA_TYPES[argument.dtype], argument.array.address, argument.extents,
                argument.stride_bytes, argument.box, (1,) * len(argument.box), 0,
                SWIZZLES[argument.swizzle],
            )  # fmt: skip
            data = name
        case DeviceArray():
            data = struct.pack("<Q", argument.address)
        case float():
            data = struct.pack("<f" if size == 4 else "<d", argument)
        case _:
            data = (argument & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if len(data) != size:
        raise LaunchError(f"{type(argument).__name__} for a parameter of {size} bytes")
    return data
