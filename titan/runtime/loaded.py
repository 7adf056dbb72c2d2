"""`titan.load`: a package as a function on arrays of PyTorch, CuPy, JAX or NumPy.

Arrays on the CPU run on the emulated device, arrays on a GPU there, on the framework's current
stream. A call checks names, shapes, strides, element types and devices, makes the outputs in the
framework of the first input (or writes into `out`), and launches.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from titan.codegen.tile.manifest import signature
from titan.device.package_files import MANIFEST, BadPackage, check_unaltered, read_manifest
from titan.device.platforms import AMD_TARGETS
from titan.runtime.arrays import ArrayFacts, CallError, Foreign, Place, facts_of
from titan.runtime.binding import (
    bound,
    launch_of,
    named,
    output_names,
    output_shapes,
    scalars_of,
)
from titan.runtime.frameworks import (
    check_writable,
    framework_of,
    same_place,
    untraced,
    wait_for,
    without_gradient,
)
from titan.runtime.launchers import CannotLaunch, EmulatedLauncher, GpuLauncher, Launcher
from titan.runtime.sharing import check_apart


class LoadedKernel:
    """A package that can be called; `signature` says with what.

    `kernel(A, B)` gives the output, or a tuple of several in the order of the manifest; inputs may
    go by name, scalar arguments do, and `out` takes arrays to write into. An output that the kernel
    adds to begins with zeros; one of `out` with what it holds. Where no output has an element
    nothing is launched. Gradients do not flow (`torch_operator`): one that would raises CallError,
    as do arguments that it does not take, outputs that share memory with another array among them;
    CannotLaunch where there is no device for it, and what the device reports.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / MANIFEST).is_file():
            inside = sorted(item.parent.name for item in self.folder.glob(f"*/{MANIFEST}"))
            hint = f"; packages in it: {', '.join(inside)}" if inside else ""
            raise CallError(f"{self.folder} is not a package: it has no {MANIFEST}{hint}")
        try:
            self.manifest = read_manifest(self.folder)
            names = [Path(self.manifest[key]).name for key in ("source", "header")]
            self.files = {name: (self.folder / name).read_text(encoding="utf-8") for name in names}
            check_unaltered(self.folder, names)
        except BadPackage as error:
            raise CallError(str(error)) from None
        except (OSError, ValueError, TypeError) as error:
            raise CallError(f"{self.folder} is not a package: {error}") from None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.manifest["kernel"])

    @property
    def signature(self) -> str:
        """The call in words."""
        return signature(self.manifest)

    def __repr__(self) -> str:
        return f"<{self.signature} for {self.manifest['target']}>"

    @cached_property
    def _emulated(self) -> EmulatedLauncher:
        return EmulatedLauncher(self.manifest, self.files)

    @cached_property
    def _gpu(self) -> GpuLauncher:
        return GpuLauncher(self.manifest, self.folder)

    @property
    def _amd(self) -> bool:
        return str(self.manifest["target"]).startswith(AMD_TARGETS)

    def _launcher(self, place: Place) -> Launcher:
        match place:
            case Place.CPU:
                return self._emulated
            case Place.CUDA if not self._amd:
                return self._gpu
            case Place.ROCM if self._amd:
                return self._gpu
        raise CannotLaunch(f"{self.name} for {self.manifest['target']} on {place.value}")

    @untraced
    def __call__(self, *inputs: Foreign, out: Foreign = None, **keywords: Foreign) -> Foreign:
        """Launch the kernel on these arrays."""
        given = named(self.manifest, inputs, keywords)
        facts = {name: facts_of(value, name) for name, value in given.items()}
        first, like = next(iter(facts.values())), next(iter(given.values()))
        self._launcher(first.place)
        shapes = output_shapes(self.manifest, bound(self.manifest, facts, keywords))
        outputs = self.outputs(shapes, out, like)
        for name, array in outputs.items():
            facts[name] = output_facts(name, array, shapes[name], first)
        check_apart(facts, outputs)
        if out is not None:
            check_writable(outputs, given.values(), self.name)
        if any(facts[name].shape.count(0) == 0 for name in outputs):
            self.launch(facts, keywords, (*given.values(), *outputs.values()))
        found = tuple(outputs.values())
        if out is None:
            found = without_gradient(found, given.values(), self.name)
        return found[0] if len(found) == 1 else found

    def launch(
        self, facts: Mapping[str, ArrayFacts], keywords: Mapping[str, Foreign],
        arrays: Sequence[Foreign],
    ) -> None:  # fmt: skip
        """Launch on arrays by tensor, outputs among them, which belong to `arrays`; `keywords` has
        sizes and scalar arguments. Raises what a call raises."""
        place = next(iter(facts.values())).place
        launcher = self._launcher(place)
        call = bound(self.manifest, facts, keywords)
        launch = launch_of(
            self.manifest, call, launcher.processors, scalars_of(self.manifest, keywords)
        )
        wait_for(arrays)
        if place is Place.CPU:
            launcher.run(launch, call.arrays, 0)
        else:
            framework = framework_of(arrays[0])
            launcher.run(launch, call.arrays, framework.stream(arrays[0]))
            if framework.waits:
                launcher.wait()

    def shapes(
        self, *inputs: Foreign, **keywords: Foreign
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of each output for these inputs; nothing is launched."""
        given = named(self.manifest, inputs, keywords)
        facts = {name: facts_of(value, name) for name, value in given.items()}
        call = bound(self.manifest, facts, keywords)
        launch_of(self.manifest, call, 1)
        return output_shapes(self.manifest, call)

    def outputs(
        self, shapes: Mapping[str, tuple[tuple[int, ...], str]], out: Foreign, like: object
    ) -> dict[str, Foreign]:
        """The outputs by name: `out`, or new arrays beside `like`. Raises CallError."""
        names = output_names(self.manifest)
        if out is None:
            framework = framework_of(like)
            made = {name: framework.empty(*shapes[name], like) for name in names}
            for item in self.manifest["tensors"]:
                if item.get("adds"):
                    framework.clear(made[item["name"]])
            return made
        if isinstance(out, Mapping):
            found = dict(out)
        else:
            many = list(out) if isinstance(out, tuple | list) else [out]
            found = dict(zip(names, many, strict=False)) if len(many) == len(names) else {}
        if set(found) != set(names):
            raise CallError(f"`out` has to be {', '.join(names)}: {self.signature}")
        return {name: found[name] for name in names}


def output_facts(
    name: str, array: object, form: tuple[tuple[int, ...], str], first: ArrayFacts
) -> ArrayFacts:
    """The facts of an output of this shape and type. Raises CallError where it is another."""
    facts, (shape, dtype) = facts_of(array, name), form
    if not facts.writable:
        raise CallError(f"{name} cannot be written")
    if facts.shape != shape:
        raise CallError(f"{name} has shape {list(facts.shape)}, not {list(shape)}")
    if not facts.holds(dtype) or not same_place(facts, first):
        raise CallError(
            f"{name} has to hold {dtype} on the device of the inputs;"
            f" it holds {facts.dtype} on {facts.place.value} {facts.number}"
        )
    return facts


def load(folder: str | os.PathLike[str]) -> LoadedKernel:
    """The package in a folder, as a function. Raises CallError where there is none."""
    return LoadedKernel(folder)
