"""`titan.Library`: one call for several packages of the same computation, chosen by shape.

A call names a kernel; every package with the same tensors whose tile program gives the same numbers
on random small problems may answer it. (That is a test and no proof: it keeps causal attention
from answering for plain attention.) Among those that admit the sizes the one with the least
estimated time is taken: waves of CTAs times iterations times the initiation interval of the
schedule, in cycles of the machine model, with a constant for the beginning and the end of a
wave. An estimate ranks; it promises no time.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from titan.codegen.tile.manifest import COORDINATE_MOST
from titan.codegen.tile.roofline import FILL_CYCLES, PROCESSORS
from titan.codegen.tile.scalars import with_scalars
from titan.codegen.tile.stored import BadProgram, from_data
from titan.device.expressions import BadExpression, evaluate
from titan.device.plan import Unlaunchable, plan
from titan.foundation.diagnostics.wording import suggestion
from titan.runtime.arrays import CallError, Foreign, Place, facts_of
from titan.runtime.binding import named, scalar_names, sizes_of
from titan.runtime.loaded import LoadedKernel

SCHEDULE = "schedule.json"
EMULATED = ("sm_90a", "sm_100a")  # targets of the emulated device
TRIED_SIZES = (8, 72, 136)  # given to the sizes of a kernel in turn, to compare two of them
TRIED_SCALAR = 0.37
TOLERANCE = 0.02  # of the largest number: sums in another order, rounded once


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """A package that admits a call, with the estimate that ranks it."""

    kernel: LoadedKernel
    cycles: int


class Library:
    """The packages below a folder. Raises CallError where there are none.

    `library(A, B, kernel="gemm")` calls the best package that computes what `gemm` does; `choices`
    ranks them. `target` picks among packages of several targets; by default, for arrays of the
    CPU, those that the emulated device runs.
    """

    def __init__(self, folder: str | os.PathLike[str], target: str | None = None) -> None:
        places = sorted(item.parent for item in Path(folder).glob("*/manifest.json"))
        if not places:
            raise CallError(f"no packages in {Path(folder)}")
        self.target = target
        self.kernels = tuple(LoadedKernel(place) for place in places)
        self._intervals: dict[Path, int] = {}
        self._same: dict[tuple[Path, Path], bool] = {}

    def __call__(
        self, *inputs: Foreign, kernel: str, out: Foreign = None, **keywords: Foreign
    ) -> Foreign:
        """Call the best package for these arrays."""
        found = self.choices(*inputs, kernel=kernel, **keywords)
        return found[0].kernel(*inputs, out=out, **keywords)

    def choices(self, *inputs: Foreign, kernel: str, **keywords: Foreign) -> list[RankedKernel]:
        """The packages that take these arrays, the best first. Raises CallError."""
        usable = [item for item in self.kernels if self._is_for(item, inputs)]
        named_one = next((item for item in usable if item.name == kernel), None)
        if named_one is None:
            known = sorted({item.name for item in usable})
            raise CallError("; ".join((f"no package {kernel!r} here", *suggestion(kernel, known))))
        reasons, found = [], []
        for item in usable:
            if not self.same_computation(named_one, item):
                continue
            try:
                found.append(RankedKernel(item, self._cycles(item, inputs, keywords)))
            except (CallError, Unlaunchable, BadExpression) as reason:
                reasons.append(str(reason))
        if not found:
            raise CallError("no package takes the call: " + "; ".join(reasons))
        return sorted(found, key=lambda choice: (choice.cycles, choice.kernel.name))

    def _is_for(self, kernel: LoadedKernel, inputs: tuple[object, ...]) -> bool:
        target = str(kernel.manifest["target"])
        if self.target is not None or not inputs:
            return self.target in (None, target)
        return facts_of(inputs[0]).place is not Place.CPU or target in EMULATED

    def same_computation(self, one: LoadedKernel, other: LoadedKernel) -> bool:
        """Whether two packages have the same tensors and agree on small random problems."""
        key = (one.folder, other.folder)
        if key not in self._same:
            alike = one is other or _same_call(one, other)
            self._same[key] = alike and (one is other or _same_numbers(one, other))
        return self._same[key]

    def _cycles(
        self, kernel: LoadedKernel, inputs: tuple[object, ...], more: Mapping[str, Foreign]
    ) -> int:
        """The estimate. Raises CallError, Unlaunchable and BadExpression."""
        manifest = kernel.manifest
        given = named(manifest, inputs, more)
        facts = {name: facts_of(value, name) for name, value in given.items()}
        sizes = sizes_of(manifest, facts, more)
        processors = PROCESSORS.get(str(manifest["target"]), max(PROCESSORS.values()))
        plan(manifest, sizes, processors)  # refuses what cannot be launched
        work = evaluate(manifest["work"], sizes)
        trip_count = manifest["trip_count"]
        coordinates = _names(trip_count) - set(sizes)
        trips = evaluate(trip_count, {**sizes, **dict.fromkeys(coordinates, COORDINATE_MOST)})
        waves = -(-work // processors)
        return int(waves * (trips * self.interval(kernel) + FILL_CYCLES))

    def interval(self, kernel: LoadedKernel) -> int:
        """The initiation interval of the package's schedule, in cycles. Raises CallError."""
        if kernel.folder not in self._intervals:
            try:
                data = json.loads((kernel.folder / SCHEDULE).read_text(encoding="utf-8"))
                self._intervals[kernel.folder] = int(data["ii"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise CallError(f"{kernel.folder} has no schedule: {error}") from None
        return self._intervals[kernel.folder]


def _names(text: str) -> set[str]:
    """The names in an expression, without its functions."""
    tree = ast.parse(text, mode="eval")
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"min", "max"}


def _same_call(one: LoadedKernel, other: LoadedKernel) -> bool:
    """Whether two packages take the same tensors and scalar arguments."""
    scalars = [sorted(scalar_names(item.manifest)) for item in (one, other)]
    return one.manifest["tensors"] == other.manifest["tensors"] and scalars[0] == scalars[1]


def _same_numbers(one: LoadedKernel, other: LoadedKernel) -> bool:
    """Whether the tile programs of two packages agree on random problems of small sizes."""
    import numpy

    from titan.codegen.tile.dtypes import rounded
    from titan.codegen.tile.semantics import run

    try:
        programs = [from_data(item.manifest["program"]) for item in (one, other)]
    except (KeyError, BadProgram):
        return False
    scalars = {item.name: TRIED_SCALAR for item in programs[0].scalars}
    programs = [with_scalars(program, scalars) for program in programs]
    names = sorted(item["name"] for item in one.manifest["parameters"])
    for turn in range(len(TRIED_SIZES) - 1):
        sizes = {
            name: TRIED_SIZES[(place + turn) % len(TRIED_SIZES)] for place, name in enumerate(names)
        }
        try:
            tensors = plan(one.manifest, sizes, 1).tensors
        except Unlaunchable:
            return False
        random = numpy.random.default_rng(turn)
        inputs = {
            item.name: rounded(random.standard_normal(item.shape), item.dtype)
            for item in tensors
            if not item.output
        }
        first, second = (run(program, inputs, sizes) for program in programs)
        for name, values in first.items():
            scale = float(numpy.abs(values).max()) or 1.0
            if not float(numpy.abs(values - second[name]).max()) <= TOLERANCE * scale:
                return False
    return True
