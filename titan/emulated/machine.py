"""Launches on the emulated device: checked, computed under one or more seeds, memory updated.

`Emulated` is what a Python program uses; the plug-in of Triton and the library for CUDA programs
stand on the same `LaunchQueue`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from titan.emulated.captures import CAPTURES
from titan.emulated.checking import LaunchChecker, LoadedCode, located
from titan.emulated.faults import LaunchFault, NotComputed, refused
from titan.emulated.memory import GlobalMemory
from titan.emulated.modules import LoadedModule, load
from titan.emulated.parameters import Argument, bytes_of
from titan.emulated.settings import CHECK, EmulationSettings, from_environment
from titan.emulated.source_lines import SourceLines
from titan.emulated.unwritten import unwritten_reads
from titan.frontends.ptx.breaches import breaches
from titan.isa.numbers.device import DeviceArray, EmulatedDevice, LaunchError, LaunchShape
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import Computed, compute
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import (
    Allocation,
    Launch,
    LaunchParameter,
    LaunchTensorMap,
    Options,
)
from titan.isa.simt.outcome import Ending, Outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ENDED = {Ending.HUNG: "hangs", Ending.FAULT: "faults", Ending.REFUSED: "cannot be computed",
           Ending.BUDGET: "does not end"}  # fmt: skip


def require_finished(outcome: Outcome, name: str, lines: SourceLines, under: str = "") -> None:
    """Nothing for a launch (`name`) that ended well, `under` some seed; one that hangs raises
    LaunchFault, any other LaunchError.
    """
    if outcome.ending is Ending.FINISHED:
        return
    text = f"{name} {_ENDED[outcome.ending]}{under}: {outcome.reason}"
    if outcome.site >= 0:
        text += f" (line {lines.places.span(outcome.site).start_line} of the {lines.kind})"
    if outcome.ending is Ending.HUNG:
        raise LaunchFault(text, (), hung=True)
    raise LaunchError(text)


@dataclass(slots=True)
class LaunchQueue:
    """Runs launches one after the other, as one stream does.

    `launches` counts those that were computed, `instructions` their warp instructions. `differing`
    names kernels whose results depend on the schedule.
    """

    settings: EmulationSettings
    checker: LaunchChecker
    launches: int = 0
    instructions: int = 0
    differing: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: EmulationSettings) -> LaunchQueue:
        """A queue with a checker of the same settings."""
        made = cls(settings, LaunchChecker(settings))
        _QUEUES.append(made)
        return made

    def submit(
        self, loaded: LoadedCode, function: Function, shape: LaunchShape,
        parameters: Sequence[bytes], maps: Mapping[bytes, LaunchTensorMap], memory: GlobalMemory,
        held: object = None,
    ) -> None:  # fmt: skip
        """`run` it, or keep it for the graph that is being captured, with the arguments `held`."""

        def launch(_: object = held) -> None:
            self.run(loaded, function, shape, parameters, maps, memory)

        CAPTURES.do(launch)

    def run(
        self, loaded: LoadedCode, function: Function, shape: LaunchShape,
        parameters: Sequence[bytes], maps: Mapping[bytes, LaunchTensorMap], memory: GlobalMemory,
    ) -> Computed | None:  # fmt: skip
        """Check and compute one launch, and write what it leaves to memory; gives the first run.

        `parameters`: the bytes of each. Raises LaunchFault where the launch is wrong, LaunchError
        where it cannot be run.
        """
        allocations = memory.allocations()
        launch = Launch(
            function.name, shape.grid, shape.block, shape.cluster, shape.dynamic_shared_bytes,
            tuple(LaunchParameter(data) for data in parameters), maps, {}, allocations,
            loaded.variables(memory.read), cooperative=shape.cooperative,
        )  # fmt: skip

        def contents() -> Launch:
            held = {a.start: memory.read(a.start, a.size_bytes) for a in allocations}
            return replace(launch, memory=held)

        verdict = self.checker.check(loaded, function, launch, contents)
        whole = contents()
        try:
            first, results = self.computed(loaded, whole, 0)
            for more in range(1, self.settings.schedules):
                _, others = self.computed(loaded, whole, more)
                if others != results:
                    self.differing[function.name] = self.differing.get(function.name, 0) + 1
        except LaunchFault:
            self.checker.overrule(verdict)
            raise
        for start, data in results.items():
            memory.write(start, data)
        self.launches += 1
        return first

    def computed(
        self, loaded: LoadedCode, launch: Launch, number: int
    ) -> tuple[Computed | None, dict[int, bytes]]:
        """One run, and the bytes that it leaves in each allocation. Raises LaunchError."""
        if not isinstance(loaded, LoadedModule):
            raise LaunchError("the device runs PTX, and this is assembly")
        seed, asked = self.settings.computed_under(number)
        options = Options(seed=seed, steps_max=self.settings.steps_max)
        computed = _made(loaded, launch, options, asked)
        if computed.run.outcome.ending is Ending.FAULT and not computed.run.events:
            computed = _made(loaded, launch, options, None)  # for its events: what went wrong
        self.instructions += computed.run.instructions
        name = f"the launch of {launch.entry}"
        under = f" with seed {seed}" if seed else ""
        # Lanes in no order are for the checker: it knows whether what they load is used.
        run = replace(computed.run, clashes=())
        found = breaches(run, loaded.places, self.checker.options.policies)
        if found:
            raise LaunchFault(f"{name} is wrong{under}", located(loaded, found))
        require_finished(computed.run.outcome, name, loaded.lines, under)
        return computed, _left(loaded, computed, launch)


_QUEUES: list[LaunchQueue] = []


def instructions_so_far() -> int:
    """The warp instructions of those queues."""
    return sum(queue.instructions for queue in _QUEUES)


def recent_queues() -> list[LaunchQueue]:
    """The queues that were made in this process since the last call, for a report at its end."""
    found = list(_QUEUES)
    _QUEUES.clear()
    return found


def _made(
    loaded: LoadedModule, launch: Launch, options: Options, asked: CoreOptions | None
) -> Computed:
    """The run of a launch, on the Python machine where nothing is `asked`. Raises LaunchError."""
    computed, findings = compute(
        loaded.module, launch, options, loaded.source,
        native=None if asked is not None else False, asked=asked,
    )  # fmt: skip
    if computed is None:
        raise refused("the launch cannot be run", findings)
    return computed


def _left(loaded: LoadedModule, computed: Computed, launch: Launch) -> dict[int, bytes]:
    """What a run leaves in each allocation. Where some of it is unknown, raises LaunchFault if the
    launch loads shared memory that nothing has written, else NotComputed.
    """
    results = {}
    for allocation in launch.allocations:
        data, missing = computed.contents(allocation.start, allocation.size_bytes)
        if missing:
            text = (
                f"the launch of {launch.entry} leaves {missing} of {allocation.size_bytes} bytes "
                f"at {allocation.start:#x} unknown:"
            )
            found = unwritten_reads(loaded, launch)
            if found:
                raise LaunchFault(f"{text} it reads shared memory that nothing has written", found)
            raise NotComputed(f"{text} it stores what is not computed here")
        results[allocation.start] = data
    return results


@dataclass(slots=True)
class _Arrays:
    """The arrays of an `Emulated` as global memory."""

    arrays: Sequence[DeviceArray]

    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(Allocation(item.address, item.size_bytes) for item in self.arrays)

    def read(self, address: int, count: int) -> bytes:
        return self._at(address).values.tobytes()[:count]

    def write(self, address: int, data: bytes) -> None:
        import numpy as np

        values = self._at(address).values
        values[...] = np.frombuffer(data, dtype=values.dtype).reshape(values.shape)

    def _at(self, address: int) -> DeviceArray:
        return next(item for item in self.arrays if item.address == address)


class Emulated:
    """An emulated device: NumPy arrays as global memory, modules of PTX, launches.

    `settings` None takes those of the environment (TITAN_CHECK and so on); `check` ("all", "first",
    "off") and `seed` change them. Needs NumPy. Raises UserError for a setting that is none.
    """

    def __init__(
        self, settings: EmulationSettings | None = None, *, check: str = "", seed: int | None = None
    ) -> None:
        found = from_environment(os.environ) if settings is None else settings
        if check:
            found = replace(found, check=from_environment({CHECK: check}).check)
        self.settings = found if seed is None else replace(found, seed=seed)
        self.queue = LaunchQueue.of(self.settings)
        self._device = EmulatedDevice()

    @property
    def arrays(self) -> list[DeviceArray]:
        """All arrays that are not freed."""
        return self._device.arrays

    def array(self, values: NDArray[np.generic]) -> DeviceArray:
        """A copy of an array in global memory; launches update its `values`."""
        return self._device.array(values)

    def free(self, array: DeviceArray) -> None:
        """Free an array: a kernel that touches it from now on is out of bounds."""
        self._device.arrays[:] = [item for item in self.arrays if item is not array]

    def module(self, text: str, name: str = "kernel.ptx") -> LoadedModule:
        """A module of PTX; `name` stands in diagnostics. Raises LaunchError."""
        return load(text, name)

    def launch(
        self, module: LoadedModule | str, shape: LaunchShape, arguments: Sequence[Argument],
        entry: str | None = None,
    ) -> Computed:  # fmt: skip
        """Check one launch as the settings ask, run it, and update the arrays.

        Raises LaunchFault where the launch is wrong, LaunchError where it cannot be run.
        """
        loaded = load(module) if isinstance(module, str) else module
        function = loaded.entry(entry)
        sizes = [parameter.size_bytes for parameter in function.parameters]
        if len(sizes) != len(arguments):
            raise LaunchError(f"{len(arguments)} arguments for {len(sizes)} parameters")
        maps: dict[bytes, LaunchTensorMap] = {}
        data = [
            bytes_of(argument, size, maps) for argument, size in zip(arguments, sizes, strict=True)
        ]
        found = self.queue.run(loaded, function, shape, data, maps, _Arrays(self.arrays))
        assert found is not None
        return found
