"""`titan.Library`: one call for several packages of the same computation, chosen by shape.

A call names a kernel; every package that computes the same on the same memory may answer it
(`correspondence`), one that takes an operand transposed among them. Among those that admit the
sizes and the strides the one with the least estimated time is taken: waves of CTAs times iterations
times the initiation interval of the schedule, in cycles of the machine model, with a constant for
the beginning and the end of a wave. An estimate ranks; it promises no time.
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
from titan.device.expressions import BadExpression, evaluate
from titan.foundation.diagnostics.wording import suggestion
from titan.runtime.arrays import ArrayFacts, CallError, Foreign, Place, facts_of
from titan.runtime.binding import bound, launch_of, named, output_shapes
from titan.runtime.correspondence import Correspondence, correspondences
from titan.runtime.loaded import LoadedKernel, output_facts

SCHEDULE = "schedule.json"
EMULATED = ("sm_90a", "sm_100a")  # targets of the emulated device


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """A package that admits a call, with the estimate that ranks it, and how it reads the call."""

    kernel: LoadedKernel
    cycles: int
    how: Correspondence


class Library:
    """The packages below a folder. Raises CallError where there are none.

    `library(A, B, kernel="gemm")` calls the best package that computes what `gemm` does, and reads
    transposed views where one of them is made for their memory; `choices` ranks them. `target`
    picks among packages of several targets; by default, for arrays of the CPU, those that the
    emulated device runs.
    """

    def __init__(self, folder: str | os.PathLike[str], target: str | None = None) -> None:
        places = sorted(item.parent for item in Path(folder).glob("*/manifest.json"))
        if not places:
            raise CallError(f"no packages in {Path(folder)}")
        self.target = target
        self.kernels = tuple(LoadedKernel(place) for place in places)
        self._intervals: dict[Path, int] = {}
        self._alike: dict[tuple[Path, Path], list[Correspondence]] = {}

    def __call__(
        self, *inputs: Foreign, kernel: str, out: Foreign = None, **keywords: Foreign
    ) -> Foreign:
        """Call the best package for these arrays."""
        wanted = self._named(kernel, inputs)
        given = named(wanted.manifest, inputs, keywords)
        facts = {name: facts_of(value, name) for name, value in given.items()}
        call = bound(wanted.manifest, facts, keywords, any_strides=True)
        shapes = output_shapes(wanted.manifest, call)
        outputs = wanted.outputs(shapes, out, next(iter(given.values())))
        first = next(iter(facts.values()))
        for name, array in outputs.items():
            facts[name] = output_facts(name, array, shapes[name], first)
        whole = bound(wanted.manifest, facts, keywords, any_strides=True).arrays
        best = self._ranked(wanted, whole, inputs, keywords)[0]
        best.kernel.launch(best.how.arrays(whole), keywords, (*given.values(), *outputs.values()))
        found = tuple(outputs.values())
        return found[0] if len(found) == 1 else found

    def choices(self, *inputs: Foreign, kernel: str, **keywords: Foreign) -> list[RankedKernel]:
        """The packages that take these arrays and write dense ones, the best first. Raises
        CallError."""
        wanted = self._named(kernel, inputs)
        given = named(wanted.manifest, inputs, keywords)
        facts = {name: facts_of(value, name) for name, value in given.items()}
        call = bound(wanted.manifest, facts, keywords, any_strides=True)
        place = next(iter(facts.values()))
        for item in wanted.manifest["tensors"]:
            if item["output"]:
                shape = tuple(evaluate(text, call.sizes) for text in item["shape"])
                call.arrays[item["name"]] = _dense(shape, item["dtype"], place)
        return self._ranked(wanted, call.arrays, inputs, keywords)

    def _named(self, kernel: str, inputs: tuple[object, ...]) -> LoadedKernel:
        usable = [item for item in self.kernels if self._is_for(item, inputs)]
        found = next((item for item in usable if item.name == kernel), None)
        if found is None:
            known = sorted({item.name for item in usable})
            raise CallError("; ".join((f"no package {kernel!r} here", *suggestion(kernel, known))))
        return found

    def _ranked(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], inputs: tuple[object, ...],
        keywords: Mapping[str, Foreign],
    ) -> list[RankedKernel]:  # fmt: skip
        """The packages that take these arrays, by the names of the wanted one's tensors."""
        reasons, found = [], []
        for item in self.kernels:
            if not self._is_for(item, inputs):
                continue
            for how in self.alike(wanted, item):
                try:
                    cycles = self._cycles(item, how.arrays(arrays), keywords)
                    found.append(RankedKernel(item, cycles, how))
                except (CallError, BadExpression) as reason:
                    reasons.append(str(reason))
        if not found:
            raise CallError("no package takes the call: " + "; ".join(dict.fromkeys(reasons)))
        return sorted(found, key=lambda one: (one.cycles, not one.how.as_it_is, one.kernel.name))

    def _is_for(self, kernel: LoadedKernel, inputs: tuple[object, ...]) -> bool:
        target = str(kernel.manifest["target"])
        if self.target is not None or not inputs:
            return self.target in (None, target)
        return facts_of(inputs[0]).place is not Place.CPU or target in EMULATED

    def alike(self, one: LoadedKernel, other: LoadedKernel) -> list[Correspondence]:
        """How the other package computes what the first does, on the same memory."""
        key = (one.folder, other.folder)
        if key not in self._alike:
            self._alike[key] = correspondences(one.manifest, other.manifest)
        return self._alike[key]

    def same_computation(self, one: LoadedKernel, other: LoadedKernel) -> bool:
        """Whether two packages compute the same, and take the same arrays in the same way."""
        return one is other or any(how.as_it_is for how in self.alike(one, other))

    def _cycles(
        self, kernel: LoadedKernel, arrays: Mapping[str, ArrayFacts], more: Mapping[str, Foreign]
    ) -> int:
        """The estimate. Raises CallError and BadExpression."""
        manifest = kernel.manifest
        processors = PROCESSORS.get(str(manifest["target"]), max(PROCESSORS.values()))
        call = bound(manifest, arrays, more)
        launch_of(manifest, call, processors)  # refuses what cannot be launched
        sizes = call.sizes
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


def _dense(shape: tuple[int, ...], dtype: str, like: ArrayFacts) -> ArrayFacts:
    """An array of this shape that is not there."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return ArrayFacts(
        0, shape, tuple(reversed(strides)), dtype, like.place, like.number, True, None
    )
