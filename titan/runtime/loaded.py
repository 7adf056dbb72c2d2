"""`titan.load`: a package as a function on arrays of PyTorch, CuPy, JAX or NumPy.

Arrays on the CPU run on the emulated device, arrays on a GPU there, on the framework's current
stream. A call checks names, shapes, strides, element types and devices, makes the outputs in the
framework of the first input (or writes into `out`), and launches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from titan.codegen.tile.manifest import Manifest, signature
from titan.device.plan import LaunchPlan
from titan.device.platforms import AMD_TARGETS
from titan.runtime.arrays import ArrayFacts, CallError, Foreign, Place, facts_of
from titan.runtime.binding import (
    bound,
    dense_names,
    named,
    output_names,
    scalars_of,
    strides_fault,
    with_strides,
)
from titan.runtime.frameworks import framework_of, same_place, wait_for
from titan.runtime.launchers import CannotLaunch, EmulatedLauncher, GpuLauncher, Launcher

MANIFEST = "manifest.json"


class LoadedKernel:
    """A package that can be called; `signature` says with what.

    `kernel(A, B)` gives the output, or a tuple of several in the order of the manifest; inputs may
    go by name, scalar arguments do, and `out` takes arrays to write into. Raises CallError for
    arguments that it does not take, CannotLaunch where there is no device for it, and what the
    device reports.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            text = (self.folder / MANIFEST).read_text(encoding="utf-8")
            self.manifest: Manifest = json.loads(text)
            self.files = {
                name: (self.folder / name).read_text(encoding="utf-8")
                for name in (
                    Path(self.manifest["source"]).name, Path(self.manifest["header"]).name
                )
            }  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as error:
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

    def __call__(self, *inputs: Foreign, out: Foreign = None, **keywords: Foreign) -> Foreign:
        """Launch the kernel on these arrays."""
        given = named(self.manifest, inputs, keywords)
        first = facts_of(next(iter(given.values())), next(iter(given)))
        launcher = self._launcher(first.place)
        scalars = scalars_of(self.manifest, keywords)
        arrays, _, launch = bound(self.manifest, given, launcher.processors, scalars, keywords)
        like = next(iter(given.values()))
        outputs = self._outputs(launch, out, like)
        for name, array in outputs.items():
            arrays[name] = _output(name, array, launch, first, name in dense_names(self.manifest))
        strided = with_strides(launch, arrays)
        wait_for((*given.values(), *outputs.values()))
        if first.place is Place.CPU:
            launcher.run(strided, arrays, 0)
        else:
            framework = framework_of(like)
            launcher.run(strided, arrays, framework.stream(like))
            if framework.waits:
                launcher.wait()
        found = tuple(outputs.values())
        return found[0] if len(found) == 1 else found

    def shapes(
        self, *inputs: Foreign, **keywords: Foreign
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of each output for these inputs; nothing is launched."""
        given = named(self.manifest, inputs, keywords)
        _, _, launch = bound(self.manifest, given, 1, keywords=keywords)
        return {item.name: (item.shape, item.dtype) for item in launch.tensors if item.output}

    def _outputs(self, launch: LaunchPlan, out: Foreign, like: object) -> dict[str, Foreign]:
        names = output_names(self.manifest)
        if out is None:
            make = framework_of(like).empty
            tensors = {tensor.name: tensor for tensor in launch.tensors}
            return {name: make(tensors[name].shape, tensors[name].dtype, like) for name in names}
        if isinstance(out, Mapping):
            found = dict(out)
        else:
            many = list(out) if isinstance(out, tuple | list) else [out]
            found = dict(zip(names, many, strict=False)) if len(many) == len(names) else {}
        if set(found) != set(names):
            raise CallError(f"`out` has to be {', '.join(names)}: {self.signature}")
        return {name: found[name] for name in names}


def _output(
    name: str, array: object, launch: LaunchPlan, first: ArrayFacts, dense: bool
) -> ArrayFacts:
    """The facts of an output. Raises CallError where the kernel cannot write it."""
    facts = facts_of(array, name)
    tensor = next(item for item in launch.tensors if item.name == name)
    if not facts.writable:
        raise CallError(f"{name} cannot be written")
    if facts.shape != tensor.shape:
        raise CallError(f"{name} has shape {list(facts.shape)}, not {list(tensor.shape)}")
    if not facts.holds(tensor.dtype) or not same_place(facts, first):
        raise CallError(
            f"{name} has to hold {tensor.dtype} on the device of the inputs;"
            f" it holds {facts.dtype} on {facts.place.value} {facts.number}"
        )
    if fault := strides_fault(name, facts, dense):
        raise CallError(fault)
    return facts


def load(folder: str | os.PathLike[str]) -> LoadedKernel:
    """The package in a folder, as a function. Raises CallError where there is none."""
    return LoadedKernel(folder)
