"""What an assembly file says about its kernels: `.amdhsa_` settings and the metadata in YAML."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence, as_integer
from titan.foundation.source.yaml import parse_text
from titan.isa.gcn.module import AssemblyKernel, KernelArgument

KERNELS_MAX = 4096
SEGMENT_BYTES_MAX = 1 << 16


@dataclass(slots=True)
class _Declared:
    line: int
    settings: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Described:
    arguments: tuple[KernelArgument, ...]
    threads_max: int | None
    threads: tuple[int, int, int] | None


class KernelFacts:
    """Gathers both sources; a kernel is what has an `.amdhsa_kernel` block."""

    def __init__(self) -> None:
        self.target = ""
        self._declared: dict[str, _Declared] = {}
        self._described: dict[str, _Described] = {}
        self._open: _Declared | None = None

    def begin(self, name: str, line: int) -> bool:
        """`.amdhsa_kernel`; False if the name is taken."""
        fresh = name not in self._declared
        self._open = self._declared.setdefault(name, _Declared(line))
        return fresh

    def set(self, name: str, text: str) -> None:
        """A setting of the open kernel; expressions of symbols are left out."""
        if self._open is not None:
            try:
                self._open.settings[name] = int(text, 0)
            except ValueError:
                self._open.settings.pop(name, None)

    def end(self) -> None:
        """`.end_amdhsa_kernel`."""
        self._open = None

    def kernels(self) -> list[AssemblyKernel]:
        """All kernels, without their bounds."""
        found = []
        for name, declared in self._declared.items():
            described = self._described.get(name)
            arguments = described.arguments if described is not None else None
            threads_max = described.threads_max if described is not None else None
            threads = described.threads if described is not None else None
            found.append(
                AssemblyKernel(
                    name, 0, 0, declared.settings, arguments, threads_max, threads, declared.line
                )
            )
        return found

    def read_metadata(self, text: str) -> bool:
        """The text between `.amdgpu_metadata` and its end; False if it is no such mapping."""
        root, errors = parse_text(text, "metadata")
        if errors or not isinstance(root, Mapping):
            return False
        self.target = _text(root.get("amdhsa.target"))
        kernels = root.get("amdhsa.kernels")
        if not isinstance(kernels, Sequence):
            return kernels is None
        for node in kernels.items[:KERNELS_MAX]:
            if isinstance(node, Mapping):
                self._describe(node)
        return True

    def _describe(self, node: Mapping) -> None:
        found = node.get(".args")
        arguments = []
        for serial, item in enumerate(found.items if isinstance(found, Sequence) else ()):
            made = _argument(item, serial)
            if made is not None:
                arguments.append(made)
        required = node.get(".reqd_workgroup_size")
        threads = None
        if isinstance(required, Sequence) and len(required) == 3:
            x, y, z = (_integer(item, 1) for item in required.items)
            threads = (x, y, z)
        largest = _integer(node.get(".max_flat_workgroup_size"), 0) or None
        self._described[_text(node.get(".name"))] = _Described(tuple(arguments), largest, threads)


def _argument(node: Node, serial: int) -> KernelArgument | None:
    if not isinstance(node, Mapping):
        return None
    offset, size = _integer(node.get(".offset"), -1), _integer(node.get(".size"), 0)
    if not 0 <= offset <= SEGMENT_BYTES_MAX or not 0 < size <= SEGMENT_BYTES_MAX:
        return None
    name = _text(node.get(".name")) or f"argument {serial}"
    return KernelArgument(name, offset, size, _text(node.get(".value_kind")))


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _integer(node: Node | None, otherwise: int) -> int:
    value = as_integer(node) if isinstance(node, Scalar) else None
    return otherwise if value is None else value
