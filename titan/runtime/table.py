"""`titan table`: the packages of a folder as a C++ header, with the choice that `Library` makes.

One header for CUDA and one for HIP, next to the folders of the packages. Which packages compute the
same is found here, as for `titan.Library`, pairs of packages with workspaces between them
(`pairs`) among them; which of them takes a call is decided in C++ by the same estimate. Nothing is
compiled.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from titan.codegen.tile.manifest import LAUNCH_HEADER, name_space
from titan.codegen.tile.roofline import FILL_CYCLES, MEMORY_BYTES_A_CYCLE
from titan.foundation.atomic import write_text
from titan.foundation.resources import template
from titan.runtime.arrays import CallError
from titan.runtime.binding import usual_scalars
from titan.runtime.chains import WAVES_MOST
from titan.runtime.library import Library, hides_ends
from titan.runtime.loaded import LoadedKernel
from titan.runtime.pairs import Pair, pairs_of

API = {
    "cuda": {
        "address": "CUdeviceptr", "result": "CUresult", "function": "CUfunction",
        "stream": "CUstream", "invalid": "CUDA_ERROR_INVALID_VALUE",
    },
    "hip": {
        "address": "void*", "result": "hipError_t", "function": "hipFunction_t",
        "stream": "hipStream_t", "invalid": "hipErrorInvalidValue",
    },
}  # fmt: skip
HEADERS = {"cuda": "packages_cuda.h", "hip": "packages_hip.h"}
_FOLDER = re.compile(r"[A-Za-z0-9_.+-]+")


def tables(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Headers by file name, one for each vendor of which there are packages. Raises CallError."""
    library = Library(folder)
    found = {}
    for vendor, name in HEADERS.items():
        kernels = [
            one
            for one in library.kernels
            if str(one.manifest["target"]).startswith("sm_") is (vendor == "cuda")
        ]
        if kernels:
            ordered = sorted(kernels, key=lambda one: (one.name, one.manifest["target"]))
            rows = _rows(library, ordered)
            pairs = pairs_of(library, ordered, [int(str(row["computation"])) for row in rows])
            found[name] = template("host", "packages.h.j2").render(
                vendor=vendor, rows=rows, fill_cycles=FILL_CYCLES, waves_most=WAVES_MOST,
                pairs=pairs, workspaces_most=max([1, *(_workspaces(one) for one in pairs)]),
                sizes_most=max(1, *(len(one.manifest["parameters"]) for one in ordered)),
                arrays_most=max(1, *(len(one.manifest["tensors"]) for one in ordered)),
                memory_bytes={
                    target: MEMORY_BYTES_A_CYCLE[target]
                    for target in sorted({str(one.manifest["target"]) for one in ordered})
                    if target in MEMORY_BYTES_A_CYCLE
                },
                memory_bytes_least=min(MEMORY_BYTES_A_CYCLE.values()), **API[vendor],
            )  # fmt: skip
    return found


def _workspaces(pair: Pair) -> int:
    found = pair["workspaces"]
    assert isinstance(found, list)
    return len(found)


def _rows(library: Library, kernels: list[LoadedKernel]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    first_of: list[LoadedKernel] = []  # one package of each computation
    spaces: dict[str, str] = {}
    for kernel in kernels:
        name = kernel.folder.name
        if not _FOLDER.fullmatch(name) or not (kernel.folder / LAUNCH_HEADER).is_file():
            raise CallError(f"{kernel.folder} has no {LAUNCH_HEADER}, or a name not fit for C++")
        space = name_space(kernel.name, str(kernel.manifest["target"]))
        if spaces.setdefault(space, name) != name:
            raise CallError(f"{spaces[space]} and {name} are two packages of one kernel")
        alike = [
            library.same_computation(one, kernel)
            and usual_scalars(one.manifest) == usual_scalars(kernel.manifest)
            for one in first_of
        ]
        if True not in alike:
            first_of.append(kernel)
        rows.append(
            {
                "space": space, "folder": name, "source": kernel.manifest["source"],
                "computation": alike.index(True) if True in alike else len(first_of) - 1,
                "interval_cycles": library.interval(kernel), "hides_ends": hides_ends(kernel),
            }
        )  # fmt: skip
    return rows


def write_tables(folder: str | os.PathLike[str]) -> list[Path]:
    """Writes the headers into the folder. Raises CallError and OSError."""
    written = []
    for name, text in tables(folder).items():
        path = Path(folder) / name
        write_text(path, text)
        written.append(path)
    return written
