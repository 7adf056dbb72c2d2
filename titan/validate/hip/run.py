"""Runs an emitted HIP kernel on the CPU: a C++ compiler with the emulation of the AMD primitives.

The source of the package is compiled as it is; the compiler reads `titan_emulation_hip.h` first,
whose primitives take the place of those of the device header. The kernel is run under one
interleaving of waves and landings of copies. A fault that the emulation finds is a KernelFault with
its message.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.tile.dtypes import bytes_of, decode, encode
from titan.codegen.tile.manifest import Manifest
from titan.foundation.errors import Refusal, UserError
from titan.foundation.limited import run_limited
from titan.foundation.scratch import scratch
from titan.sync.expression import evaluate, parse_expression

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

NATIVE = Path(__file__).resolve().parent / "native"
MODES = ("lazy", "eager", "mixed")
PRIMITIVES = "titan_emulation_hip.h"
SOURCE_SUFFIX = ".hip.cpp"
FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-w",
    "-include", PRIMITIVES, "-x", "c++",
)  # fmt: skip
SECONDS_MAX = 300  # of processor time, for the compiler
MESSAGE_BYTES = 256
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_libraries: dict[str, ctypes.CDLL] = {}


class KernelFault(UserError):
    """The kernel did what no kernel may do; the text names wave and lane."""


class EmulationError(Refusal):
    """The kernel cannot be run here: no compiler, it does not compile, the manifest is wrong."""


class LaunchRefused(EmulationError):
    """The parameters, the inputs or the manifest do not make a launch; the text says why."""


def compiler() -> str:
    """The C++ compiler. Raises EmulationError where there is none."""
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise EmulationError("no C++ compiler; a HIP kernel on the CPU needs g++ or clang++")


def emulate_hip(
    files: Mapping[str, str],
    manifest: Manifest,
    inputs: Mapping[str, ArrayLike],
    parameters: Mapping[str, int],
    seed: int = 0,
    mode: str = "lazy",
) -> dict[str, NDArray[np.float32]]:
    """The outputs of one launch; elements that are never written are NaN.

    Raises KernelFault, LaunchRefused, EmulationError.
    """
    import numpy as np

    check_launch(manifest, parameters)
    library = _library(files, manifest)
    arrays: list[NDArray[np.uint8]] = []
    for tensor in manifest["tensors"]:
        shape = [evaluate(parse_expression(text), parameters) for text in tensor["shape"]]
        if tensor["output"]:
            size = int(np.prod(shape)) * bytes_of(tensor["dtype"])
            arrays.append(np.full(size, 0xFF, np.uint8))
            continue
        values = np.asarray(inputs[tensor["name"]])
        if list(values.shape) != shape:
            raise LaunchRefused(f"{tensor['name']} has the shape {values.shape}, not {shape}")
        arrays.append(np.ascontiguousarray(encode(values, tensor["dtype"])).view(np.uint8).ravel())
    message = _launch(library, manifest, arrays, parameters, seed, mode)
    if message:
        raise KernelFault(message)
    found = {}
    for tensor, array in zip(manifest["tensors"], arrays, strict=True):
        if tensor["output"]:
            shape = [evaluate(parse_expression(text), parameters) for text in tensor["shape"]]
            width = {1: np.uint8, 2: np.uint16, 4: np.uint32}[bytes_of(tensor["dtype"])]
            found[tensor["name"]] = decode(array.view(width).reshape(shape), tensor["dtype"])
    return found


def check_launch(manifest: Manifest, parameters: Mapping[str, int]) -> None:
    """Raises LaunchRefused for parameters that the kernel is not made for."""
    for item in manifest["parameters"]:
        if parameters.get(item["name"], 0) < item["minimum"]:
            raise LaunchRefused(f"{item['name']} is at least {item['minimum']}")
    for text in manifest["constraints"]:
        if not evaluate(parse_expression(text), parameters):
            raise LaunchRefused(f"the launch breaks {text}")


def _library(files: Mapping[str, str], manifest: Manifest) -> ctypes.CDLL:
    """The kernel and the emulation as a shared library; one for each text in this process."""
    main = _main(manifest)
    native = [(NATIVE / name).read_text() for name in (PRIMITIVES, "fibers.h")]
    parts = [
        main,
        str(manifest["target"]),
        *native,
        *(f"{name}\0{files[name]}" for name in sorted(files)),
    ]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if digest in _libraries:
        return _libraries[digest]
    with scratch("titan-emulate-") as folder:
        for name in (manifest["source"], manifest["header"]):
            (Path(folder) / Path(name).name).write_text(files[name], encoding="utf-8")
        (Path(folder) / "main.cpp").write_text(main, encoding="utf-8")
        made = Path(folder) / "kernel.so"
        wide = ["-DTITAN_WIDE_PRODUCTS"] if manifest["target"] == "gfx950" else []
        paths = [f"-I{folder}", f"-I{NATIVE}", f"{folder}/main.cpp"]
        command = [compiler(), *FLAGS, *wide, *paths]
        try:
            done = run_limited([*command, "-o", str(made)], SECONDS_MAX)
        except OSError as error:
            raise EmulationError(str(error)) from None
        if done.returncode:
            raise EmulationError(f"the kernel does not compile: {done.stderr[:2000]}")
        library = ctypes.CDLL(str(made))
    _libraries[digest] = library
    return library


def _single(value: float) -> str:
    """A number of f32 as C++ spells it, exactly."""
    return f"{struct.unpack('<f', struct.pack('<f', value))[0]!r}f"


def _main(manifest: Manifest) -> str:
    """A function that launches the kernel with arguments from arrays."""
    entry, source = str(manifest["entry"]), str(manifest["source"])
    if not _NAME.fullmatch(entry) or source != Path(source).name:
        raise EmulationError("entry or source of the manifest is not a name")
    pointers, sizes = 0, 0
    scalars = {item["name"]: item["value"] for item in manifest.get("scalars", ())}
    given = []
    for argument in manifest["arguments"]:
        if argument["kind"] == "pointer":
            given.append(f"pointers[{pointers}]")
            pointers += 1
        elif argument["kind"] == "scalar":
            given.append(_single(scalars[argument["name"]]))
        else:
            given.append(f"numbers[{sizes}]")
            sizes += 1
    return (
        f'#include "{source}"\n'
        "static unsigned char **pointers;\nstatic const int *numbers;\n"
        f"static void start() {{ {entry}({', '.join(given)}); }}\n"
        'extern "C" int titan_hip_run(int groups, int threads, int shared_bytes, '
        "unsigned long long seed, int mode, int tensors, unsigned char **at, "
        "const long long *bytes, const int *outputs, const int *values, char *message) {\n"
        "  pointers = at;\n  numbers = values;\n"
        "  return titan_emulation_launch(groups, threads, shared_bytes, seed, mode, tensors, at, "
        "bytes, outputs, start, message);\n}\n"
    )


def _launch(
    library: ctypes.CDLL,
    manifest: Manifest,
    arrays: list[NDArray[np.uint8]],
    parameters: Mapping[str, int],
    seed: int,
    mode: str,
) -> str:
    """What went wrong, or nothing."""
    launch = manifest["launch"]
    groups = evaluate(parse_expression(launch["grid"]), parameters)
    count = len(arrays)
    pointers = (ctypes.c_void_p * count)(*(array.ctypes.data for array in arrays))
    sizes = (ctypes.c_longlong * count)(*(array.nbytes for array in arrays))
    outputs = (ctypes.c_int * count)(*(int(t["output"]) for t in manifest["tensors"]))
    names = [item["name"] for item in manifest["arguments"] if item["kind"] == "size"]
    values = (ctypes.c_int * max(1, len(names)))(*(parameters[name] for name in names))
    message = ctypes.create_string_buffer(MESSAGE_BYTES)
    failed = library.titan_hip_run(
        groups, launch["block"], launch["dynamic_shared_bytes"], ctypes.c_ulonglong(seed + 1),
        MODES.index(mode), count, pointers, sizes, outputs, values, message,
    )  # fmt: skip
    return message.value.decode("ascii", "replace") if failed else ""
