"""`titan.Library`: one call for several packages of the same computation, chosen by shape.

A call names a kernel; every package that computes the same on the same memory may answer it
(`correspondence`), one that takes an operand transposed among them, and so may two one after the
other (`chains`): parts over K, and their sum. Among those that admit the sizes and the strides the
one with the least estimated time is taken: waves of CTAs times iterations times the cycles of one
(the initiation interval of the schedule, or of the busiest resource), with a constant for the
beginning and the end of a wave, once where the next item overlaps it; for two launches also the
way of the workspace to memory and back. Where the last wave has few tiles, the rows of the whole
waves may go to one package and the others to what is best for them (`rows`), with the time between
two launches added. An estimate ranks; it promises no time.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from numbers import Real
from pathlib import Path

from titan.codegen.tile.alternation import may_alternate
from titan.codegen.tile.manifest import ALIGNMENT_BYTES, COORDINATE_MOST, Manifest
from titan.codegen.tile.rates import known_targets, rates
from titan.codegen.tile.roofline import (
    FILL_CYCLES,
    MEMORY_BYTES_A_CYCLE,
    PROCESSORS,
    iteration_cycles,
)
from titan.codegen.tile.stored import BadProgram, from_data
from titan.device.expressions import BadExpression, evaluate
from titan.device.plan import BYTES
from titan.foundation.diagnostics.wording import suggestion
from titan.runtime.arrays import ArrayFacts, CallError, Foreign, Place, facts_of
from titan.runtime.binding import (
    bound,
    input_names,
    launch_of,
    named,
    output_shapes,
    usual_scalars,
)
from titan.runtime.chains import Chain, Shapes, chains, counts_of_parts
from titan.runtime.correspondence import Correspondence, correspondences
from titan.runtime.frameworks import check_writable, untraced, without_gradient
from titan.runtime.loaded import MANIFEST, LoadedKernel, output_facts
from titan.runtime.rows import rows_of_waves, rows_size, shares
from titan.runtime.sharing import check_apart

SCHEDULE = "schedule.json"
_LEAST_MEMORY = min(MEMORY_BYTES_A_CYCLE.values())
CHOICES_KEPT = 256
EMULATED = ("sm_90a", "sm_100a")  # targets of the emulated device


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """A package that admits a call, with the estimate that ranks it, and how it reads the call.

    Where two packages do it one after the other, `chain` holds both, `kernel` is the first of them,
    and `parts` says in how many parts it computes the workspaces, whose shapes are `between`. Where
    a call is taken in two shares, these compute its first `rows` rows, and `rest` the others.
    """

    kernel: LoadedKernel
    cycles: int
    how: Correspondence
    chain: Chain | None = None
    parts: int = 1
    between: Shapes = ()
    rows: int = 0
    rest: RankedKernel | None = None

    @property
    def name(self) -> str:
        """The packages that are launched."""
        own = self.kernel.name if self.chain is None else self.chain.name
        return own if self.rest is None else f"{own}, {self.rest.name}"

    @property
    def explanation(self) -> str:
        """The choice in words: which rows by which packages, in how many parts, with what
        estimate."""
        words = self.kernel.name
        if self.chain is not None:
            words = f"{words} in {self.parts} parts, then {self.chain.second.name}"
        if self.rest is None:
            return f"{words}: {self.cycles} cycles"
        return (
            f"rows 0 to {self.rows - 1} by {words}, the others by {self.rest.explanation};"
            f" {self.cycles} cycles in all"
        )


class Library:
    """The packages below a folder. Raises CallError where there are none.

    `library(A, B, kernel="gemm")` calls the best package that computes what `gemm` does, and reads
    transposed views where one of them is made for their memory; `choices` ranks them. `target`
    picks among packages of several targets; by default, for arrays of the CPU, those that the
    emulated device runs.
    """

    def __init__(self, folder: str | os.PathLike[str], target: str | None = None) -> None:
        self.folder = Path(folder)
        places = sorted(item.parent for item in self.folder.glob(f"*/{MANIFEST}"))
        if not places:
            one = (self.folder / MANIFEST).is_file()
            more = "; it is a package itself, which titan.load takes" if one else ""
            raise CallError(f"no packages in {self.folder}{more}")
        self.target = target
        self.kernels = tuple(LoadedKernel(place) for place in places)
        self._intervals: dict[Path, int] = {}
        self._alike: dict[tuple[Path, Path], list[Correspondence]] = {}
        self._chains: dict[Path, list[Chain]] = {}
        self._rows_sizes: dict[Path, str | None] = {}
        self._chosen: dict[tuple[object, ...], RankedKernel] = {}

    def __repr__(self) -> str:
        return f"<{len(self.kernels)} packages of {self.folder}: {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """What `kernel` may be."""
        return tuple(sorted({item.name for item in self.kernels}))

    @untraced
    def __call__(
        self, *inputs: Foreign, kernel: str = "", out: Foreign = None, **keywords: Foreign
    ) -> Foreign:
        """Call the best package for these arrays."""
        wanted = self._named(kernel, inputs)
        given = named(wanted.manifest, inputs, keywords)
        numbers = {name: value for name, value in keywords.items() if value is not None}
        keywords = {**usual_scalars(wanted.manifest), **numbers}  # not those of another package
        facts = {name: facts_of(value, name) for name, value in given.items()}
        call = bound(wanted.manifest, facts, keywords, any_strides=True)
        shapes = output_shapes(wanted.manifest, call)
        outputs = wanted.outputs(shapes, out, next(iter(given.values())))
        first = next(iter(facts.values()))
        for name, array in outputs.items():
            facts[name] = output_facts(name, array, shapes[name], first)
        check_apart(facts, outputs)
        if out is not None:
            check_writable(outputs, given.values(), wanted.name)
        whole = bound(wanted.manifest, facts, keywords, any_strides=True).arrays
        if any(facts[name].shape.count(0) == 0 for name in outputs):
            best = self._best(wanted, whole, inputs, keywords)
            held = (*given.values(), *outputs.values())
            self._launch(wanted, best, whole, keywords, held)
        found = tuple(outputs.values())
        if out is None:
            found = without_gradient(found, given.values(), wanted.name)
        return found[0] if len(found) == 1 else found

    def _launch(
        self, wanted: LoadedKernel, best: RankedKernel, arrays: dict[str, ArrayFacts],
        keywords: Mapping[str, Foreign], held: tuple[Foreign, ...],
    ) -> None:  # fmt: skip
        """The launches of a choice, one behind the other."""
        size = self._rows_size(wanted) if best.rest is not None else None
        if best.rest is not None and size is not None:
            first, others = shares(wanted.manifest, size, arrays, best.rows)
            self._launch(wanted, replace(best, rest=None), first, keywords, held)
            self._launch(wanted, best.rest, others, keywords, held)
        elif best.chain is None:
            best.kernel.launch(best.how.arrays(arrays), keywords, held)
        else:
            mine = best.how.arrays(arrays)
            best.chain.launch(mine, best.between, best.parts, keywords, held)

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
            if not kernel:
                raise CallError(f"`kernel` has to be one of {', '.join(known)}")
            raise CallError("; ".join((f"no package {kernel!r} here", *suggestion(kernel, known))))
        return found

    def _best(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], inputs: tuple[object, ...],
        keywords: Mapping[str, Foreign],
    ) -> RankedKernel:  # fmt: skip
        """The first of the ranking, found once for arrays that lie alike."""
        numbers = [item for item in sorted(keywords.items()) if isinstance(item[1], Real)]
        alike = [
            (name, one.address % ALIGNMENT_BYTES, one.shape, one.strides, one.dtype, one.place)
            for name, one in sorted(arrays.items())
        ]
        key = (wanted.folder, *numbers, *alike)
        if key not in self._chosen:
            if len(self._chosen) >= CHOICES_KEPT:
                self._chosen.clear()
            self._chosen[key] = self._ranked(wanted, arrays, inputs, keywords)[0]
        return self._chosen[key]

    def _ranked(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], inputs: tuple[object, ...],
        keywords: Mapping[str, Foreign],
    ) -> list[RankedKernel]:  # fmt: skip
        """The packages that take these arrays, by the names of the wanted one's tensors; first a
        call in two shares of rows, where that takes less than each of them. Raises CallError."""
        found, reasons = self._whole(wanted, arrays, inputs, keywords)
        if not found:
            raise CallError("no package takes the call: " + "; ".join(dict.fromkeys(reasons)))
        return [*self._in_shares(wanted, arrays, found, inputs, keywords), *found]

    def _whole(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], inputs: tuple[object, ...],
        keywords: Mapping[str, Foreign],
    ) -> tuple[list[RankedKernel], list[str]]:  # fmt: skip
        """What computes all rows in the same way, the best first; why others do not."""
        reasons: list[str] = []
        found: list[RankedKernel] = []
        for item in self.kernels:
            if not self._is_for(item, inputs):
                continue
            for how in self.alike(wanted, item):
                try:
                    cycles = self._cycles(item, how.arrays(arrays), keywords)
                    found.append(RankedKernel(item, cycles, how))
                except (CallError, BadExpression) as reason:
                    reasons.append(str(reason))
        found += self._chained(wanted, arrays, inputs)
        found.sort(key=lambda one: (one.cycles, not one.how.as_it_is, one.name))
        return found, reasons

    def _in_shares(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], whole: list[RankedKernel],
        inputs: tuple[object, ...], keywords: Mapping[str, Foreign],
    ) -> list[RankedKernel]:  # fmt: skip
        """The best way to compute the rows of whole waves with one package and the others with
        another, or a pair; none where it is estimated to take as long as one of `whole`."""
        size = self._rows_size(wanted)
        if size is None:
            return []
        rests: dict[int, list[RankedKernel]] = {}
        best = whole[0]
        for one in whole:
            target = str(one.kernel.manifest["target"])
            if one.chain is not None or target not in known_targets():
                continue
            for rows in self._ends_of_waves(one, arrays, size, keywords):
                try:
                    first, others = shares(wanted.manifest, size, arrays, rows)
                    cycles = self._cycles(one.kernel, one.how.arrays(first), keywords)
                except (CallError, BadExpression):
                    continue  # no view of these rows
                cycles += rates(target).launch_cycles
                if cycles >= best.cycles:
                    continue
                if rows not in rests:
                    rests[rows] = self._whole(wanted, others, inputs, keywords)[0]
                rest = next((r for r in rests[rows] if r.kernel.manifest["target"] == target), None)
                if rest is not None and cycles + rest.cycles < best.cycles:
                    best = replace(one, cycles=cycles + rest.cycles, rows=rows, rest=rest)
        return [best] if best.rest is not None else []

    def _ends_of_waves(
        self, one: RankedKernel, arrays: dict[str, ArrayFacts], size: str,
        keywords: Mapping[str, Foreign],
    ) -> list[int]:  # fmt: skip
        """How many rows of the wanted package's size end with a whole wave of this one."""
        manifest = one.kernel.manifest
        name = next((name for name, to in one.how.sizes if to == size), None)
        if name is None:
            return []
        sizes = bound(manifest, one.how.arrays(arrays), keywords).sizes
        return rows_of_waves(manifest, sizes, name, _processors(str(manifest["target"])))

    def _rows_size(self, wanted: LoadedKernel) -> str | None:
        if wanted.folder not in self._rows_sizes:
            self._rows_sizes[wanted.folder] = rows_size(wanted.manifest)
        return self._rows_sizes[wanted.folder]

    def _chained(
        self, wanted: LoadedKernel, arrays: dict[str, ArrayFacts], inputs: tuple[object, ...]
    ) -> list[RankedKernel]:
        """The pairs of packages that take these arrays, each with its best number of parts."""
        found = []
        for chain in self.chains(wanted):
            if not (self._is_for(chain.first, inputs) and self._is_for(chain.second, inputs)):
                continue
            try:
                made = list(self._parts(chain, chain.how.arrays(arrays)))
            except (CallError, BadExpression):
                continue  # what a chain does not take, it does not answer for
            found += sorted(made, key=lambda one: (one.cycles, one.parts))[:1]
        return found

    def chains(self, wanted: LoadedKernel) -> list[Chain]:
        """The pairs of packages that compute what the wanted one does."""
        if wanted.folder not in self._chains:
            self._chains[wanted.folder] = chains(wanted, self.kernels)
        return self._chains[wanted.folder]

    def _parts(self, chain: Chain, arrays: Mapping[str, ArrayFacts]) -> Iterator[RankedKernel]:
        """The pair with each number of parts that is considered. Raises CallError and
        BadExpression."""
        manifest = chain.first.manifest
        names = input_names(manifest)
        given = {name: arrays[name] for name in names}
        one = bound(manifest, given, {chain.parts: 1}).sizes
        target = str(manifest["target"])
        processors = _processors(target)
        counts = counts_of_parts(evaluate(manifest["work"], one), _trips(manifest, one), processors)
        workspaces, like = chain.workspaces, next(iter(arrays.values()))
        for count in counts:
            sizes = {**one, chain.parts: count}
            shapes = tuple(
                tuple(evaluate(text, sizes) for text in item["shape"]) for item in workspaces
            )
            between = [
                _dense(shape, item["dtype"], like)
                for shape, item in zip(shapes, workspaces, strict=True)
            ]
            cycles = self._cycles(
                chain.first, chain.of_first(arrays, between), {chain.parts: count}
            ) + self._cycles(chain.second, chain.of_second(arrays, between), {})
            moved = sum(2 * prod(one.shape) * BYTES[one.dtype] for one in between)
            cycles += FILL_CYCLES + moved // MEMORY_BYTES_A_CYCLE.get(target, _LEAST_MEMORY)
            yield RankedKernel(chain.first, cycles, chain.how, chain, count, shapes)

    def _is_for(self, kernel: LoadedKernel, inputs: tuple[object, ...]) -> bool:
        target = str(kernel.manifest["target"])
        if self.target is not None or not inputs:
            return self.target in (None, target)
        return facts_of(inputs[0], "the first input").place is not Place.CPU or target in EMULATED

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
        processors = _processors(str(manifest["target"]))
        call = bound(manifest, arrays, more)
        launch_of(manifest, call, processors)  # refuses what cannot be launched
        work, trips = evaluate(manifest["work"], call.sizes), _trips(manifest, call.sizes)
        waves = -(-work // processors)
        ends = 1 if hides_ends(kernel) else waves
        return int(waves * trips * self.interval(kernel) + ends * FILL_CYCLES)

    def interval(self, kernel: LoadedKernel) -> int:
        """Cycles of one iteration: the initiation interval of the package's schedule, or what the
        busiest resource takes (the way from the L2 cache, say), where that is more. Raises
        CallError."""
        if kernel.folder not in self._intervals:
            try:
                data = json.loads((kernel.folder / SCHEDULE).read_text(encoding="utf-8"))
                interval = int(data["ii"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise CallError(f"{kernel.folder} has no schedule: {error}") from None
            self._intervals[kernel.folder] = max(interval, _busiest_cycles(kernel))
        return self._intervals[kernel.folder]


def hides_ends(kernel: LoadedKernel) -> bool:
    """Whether the products of the next work item run beside the end of one."""
    try:
        return may_alternate(from_data(kernel.manifest["program"]))
    except (KeyError, BadProgram):
        return False


def _busiest_cycles(kernel: LoadedKernel) -> int:
    """Cycles of an iteration at its busiest resource; 0 where the package has no tile program."""
    try:
        tile = from_data(kernel.manifest["program"])
    except (KeyError, BadProgram):
        return 0
    return ceil(max(iteration_cycles(tile).values()))


def _processors(target: str) -> int:
    return PROCESSORS.get(target, max(PROCESSORS.values()))


def _trips(manifest: Manifest, sizes: Mapping[str, int]) -> int:
    """Iterations of the work item with the most, as far as sizes say."""
    text = manifest["trip_count"]
    most = dict.fromkeys(_names(text) - set(sizes), COORDINATE_MOST)
    return evaluate(text, {**sizes, **most})


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
