"""Runs the emitted kernel of a package on the CPU and returns what it has written.

The manifest says how the kernel is launched; the launch is described to the compiled program in a
text file, tensors travel as files of bytes. Every fault that the program finds (a race that showed,
a hang, a divergence) is a KernelFault with the program's message. Assumes dense row-major tensors,
as tile programs have them.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

from titan.codegen.tile.dtypes import bytes_of, decode, encode
from titan.codegen.tile.manifest import Manifest, ManifestArgument, ManifestTensor
from titan.foundation.errors import UserError
from titan.foundation.scratch import scratch
from titan.sync.expression import evaluate, parse_expression
from titan.validate.emulate.compile import EmulationError, build

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

FAULT_EXIT = 3
PROCESSOR_SECONDS = 120
CLOCK_FACTOR = 20  # on a loaded machine a process gets a part of the time
POLICIES = ("uniform", "priority", "round_robin", "latest", "uneven", "starve")
DELAYS = ("mixed", "lazy", "eager")
UNWRITTEN_BYTE = 0xFF  # every element of an output is NaN until it is written
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class KernelFault(UserError):
    """The kernel did what no kernel may do; the text names role, thread and primitive."""


class LaunchRefused(EmulationError):
    """The parameters, the inputs or the manifest do not make a launch; the text says why."""


@dataclass(frozen=True, slots=True)
class EmulationResult:
    """`outputs`: the tensors that the kernel writes, as float32 numbers; elements never written
    are NaN. `decisions`: how many times the scheduler chose a thread."""

    outputs: dict[str, NDArray[np.float32]]
    decisions: int


class EmulationOptions(TypedDict):
    """Which interleaving is run; what is left out has the value in brackets.

    `seed` (0). `policy` (`uniform`): `uniform`, `priority`, `round_robin`, `latest`, `starve:ROLE`
    (threads of that role run only when no other can) or `uneven` (warps in a strict order drawn
    once). `delay` (`mixed`): when engines work: `mixed`, `lazy` (only when nothing else can run),
    `eager`. `processors` (2): CTAs of a persistent kernel that run at a time. `read_fences` (True):
    an ordinary read must be fenced before an engine overwrites what was read. `processor_seconds`
    (120): processor time after which the kernel is taken not to terminate.
    """

    seed: NotRequired[int]
    policy: NotRequired[str]
    delay: NotRequired[str]
    processors: NotRequired[int]
    read_fences: NotRequired[bool]
    processor_seconds: NotRequired[int]


def emulate(
    files: Mapping[str, str] | str | Path,
    manifest: Manifest,
    inputs: Mapping[str, ArrayLike],
    parameters: Mapping[str, int],
    **options: Unpack[EmulationOptions],
) -> EmulationResult:
    """Run a CUDA kernel once under one interleaving.

    `files`: name -> text, or the folder of a package. `inputs`: numbers of any type, rounded to the
    tensor's. Raises KernelFault, LaunchRefused, EmulationError.
    """
    if isinstance(files, str | Path):
        files = folder_texts(Path(files))
    launch = _Launch(manifest, parameters, options.get("processors", 2))
    program = build(files, manifest)
    with scratch("titan-emulation-") as name:
        folder = Path(name)
        lines = [
            f"launch {launch.grid} {launch.block} {launch.cluster} {launch.shared_bytes}",
            _policy_line(options),
            f"read_fences {int(options.get('read_fences', True))}",
            *launch.roles(),
            *_write_tensors(folder, launch, inputs),
            *launch.arguments(),
        ]
        (folder / "launch.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        decisions = _run(program, folder, options.get("processor_seconds", PROCESSOR_SECONDS))
        return EmulationResult(_read_outputs(folder, launch), decisions)


def folder_texts(path: Path) -> dict[str, str]:
    """The sources and headers of a package's folder, by name."""
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(path.iterdir())
        if file.suffix in {".cu", ".cpp", ".cuh", ".h"}
    }


def _policy_line(options: EmulationOptions) -> str:
    policy, delay = options.get("policy", "uniform"), options.get("delay", "mixed")
    kind, _, role = policy.partition(":")
    if kind not in POLICIES or (kind == "starve") != bool(role):
        raise LaunchRefused(f"unknown policy {policy!r}; known are {', '.join(POLICIES)} (:ROLE)")
    if delay not in DELAYS:
        raise LaunchRefused(f"unknown delay {delay!r}; known are {', '.join(DELAYS)}")
    return f"policy {options.get('seed', 0)} {kind} {delay} {role or '-'}"


def _swizzle_bytes(value: object) -> int:
    text = str(value or "none").lower().removesuffix("b")
    if text not in {"none", "0", "32", "64", "128"}:
        raise LaunchRefused(f"unknown swizzle {value!r}")
    return 0 if text == "none" else int(text)


def _word(text: object) -> str:
    if not isinstance(text, str) or not _WORD.fullmatch(text):
        raise LaunchRefused(f"{text!r} of the manifest is not a name")
    return text


class _Launch:
    """The manifest under given parameters."""

    def __init__(self, manifest: Manifest, parameters: Mapping[str, int], processors: int) -> None:
        self.manifest = manifest
        self.values = dict(parameters)
        for parameter in manifest["parameters"]:
            name, least = parameter["name"], parameter.get("minimum", 1)
            if name not in self.values:
                raise LaunchRefused(f"no value for parameter {name}")
            if self.values[name] < least:
                raise LaunchRefused(f"{name} is {self.values[name]}, at least {least} is needed")
        for text in manifest.get("constraints", ()):
            if not self.number(text):
                raise LaunchRefused(f"constraint `{text}` does not hold")
        launch = manifest["launch"]
        self.block = int(launch["block"])
        self.cluster = int(launch.get("cluster", 1))
        self.shared_bytes = int(launch["dynamic_shared_bytes"])
        self.grid = self.number(launch["grid"], processors=processors)
        if self.grid < 1:
            raise LaunchRefused(f"a grid of {self.grid} CTAs")
        self.tensors = list(manifest["tensors"])
        self.places = {tensor["name"]: place for place, tensor in enumerate(self.tensors)}

    def number(self, text: object, **more: int) -> int:
        if isinstance(text, int):
            return text
        try:
            return evaluate(parse_expression(str(text)), {**self.values, **more})
        except (ValueError, KeyError, ZeroDivisionError) as error:
            raise LaunchRefused(f"expression `{text}` has no value: {error!r}") from None

    def shape(self, tensor: ManifestTensor) -> tuple[int, ...]:
        return tuple(self.number(extent) for extent in tensor["shape"])

    def roles(self) -> list[str]:
        return [
            f"role {_word(role['name'])} {int(role['first_thread'])} {int(role['threads'])}"
            for role in self.manifest.get("roles", ())
        ]

    def arguments(self) -> list[str]:
        """Lines of the arguments in order, and of the tensor maps among them."""
        lines: list[str] = []
        maps = 0
        for argument in self.manifest["arguments"]:
            kind = argument["kind"]
            if kind == "tensor_map":
                lines.append(self.map_line(argument))
                lines.append(f"argument tensor_map {maps}")
                maps += 1
            elif kind == "pointer":
                lines.append(f"argument pointer {self.place(argument['tensor'])}")
            elif kind == "size":
                lines.append(f"argument size {self.number(argument['name'])}")
            else:
                raise LaunchRefused(f"unknown kind of argument {kind!r}")
        return lines

    def place(self, name: str) -> int:
        if name not in self.places:
            raise LaunchRefused(f"no tensor {name!r} in the manifest")
        return self.places[name]

    def map_line(self, argument: ManifestArgument) -> str:
        """Refuses what cuTensorMapEncodeTiled refuses (driver API, tensor map object)."""
        place = self.place(argument["tensor"])
        tensor = self.tensors[place]
        each = bytes_of(tensor["dtype"])
        name = argument["name"]
        if argument.get("dtype", tensor["dtype"]) != tensor["dtype"]:
            raise LaunchRefused(f"map {name} has another element type than its tensor")
        sizes = list(reversed(self.shape(tensor)))
        box = [self.number(extent) for extent in argument["box"]]
        swizzle = _swizzle_bytes(argument.get("swizzle"))
        if len(box) != len(sizes):
            raise LaunchRefused(f"map {name}: {len(box)} box extents, {len(sizes)} dimensions")
        strides = [each]
        for extent in sizes[:-1]:
            strides.append(strides[-1] * extent)
        if any(stride % 16 for stride in strides[1:]):
            raise LaunchRefused(f"map {name}: strides {strides[1:]} are not multiples of 16 bytes")
        if any(not 1 <= extent <= 256 for extent in box) or box[0] * each % 16:
            raise LaunchRefused(f"map {name}: box {box} is not allowed")
        if swizzle and box[0] * each > swizzle:
            raise LaunchRefused(f"map {name}: rows of {box[0] * each} bytes, swizzle {swizzle}")
        numbers = [n for triple in zip(sizes, strides, box, strict=True) for n in triple]
        return " ".join(["map", _word(name), *map(str, (place, len(box), each, swizzle, *numbers))])


def _write_tensors(folder: Path, launch: _Launch, inputs: Mapping[str, ArrayLike]) -> list[str]:
    import numpy as np

    lines = []
    for place, tensor in enumerate(launch.tensors):
        name, dtype, shape = tensor["name"], tensor["dtype"], launch.shape(tensor)
        output = bool(tensor.get("output"))
        if name in inputs:
            numbers = np.asarray(inputs[name])
            if numbers.shape != shape:
                raise LaunchRefused(f"{name} has shape {numbers.shape}, the launch takes {shape}")
            content = np.ascontiguousarray(encode(numbers, dtype)).tobytes()
        elif output:
            content = bytes([UNWRITTEN_BYTE]) * (int(np.prod(shape)) * bytes_of(dtype))
        else:
            raise LaunchRefused(f"no input {name}")
        (folder / f"tensor{place}").write_bytes(content)
        lines.append(f"tensor {_word(name)} tensor{place} {len(content)} {int(output)}")
    return lines


def _read_outputs(folder: Path, launch: _Launch) -> dict[str, NDArray[np.float32]]:
    import numpy as np

    outputs = {}
    for place, tensor in enumerate(launch.tensors):
        if tensor.get("output"):
            kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[bytes_of(tensor["dtype"])]
            patterns = np.frombuffer((folder / f"tensor{place}").read_bytes(), kind)
            outputs[tensor["name"]] = decode(patterns, tensor["dtype"]).reshape(
                launch.shape(tensor)
            )
    return outputs


def _run(program: Path, folder: Path, processor_seconds: int) -> int:
    """The decisions of the scheduler. A kernel is judged by processor time, not by the clock."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds + 1))

    try:
        done = subprocess.run(
            [str(program), "launch.txt"],
            cwd=folder, capture_output=True, text=True, errors="replace", preexec_fn=limited,
            timeout=CLOCK_FACTOR * processor_seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise EmulationError(f"the machine is too busy: {error}") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise KernelFault(
            f"the kernel did not end within {processor_seconds} seconds of processor time"
        )
    if done.returncode == FAULT_EXIT:
        raise KernelFault(done.stderr.strip())
    if done.returncode < 0:
        raise KernelFault(f"the program was ended by signal {-done.returncode}: {done.stderr}")
    if done.returncode != 0:
        raise EmulationError(f"the emulation failed: {done.stderr.strip()}")
    return int(done.stdout.split()[-1])
