"""Files that are no text, by how they begin: what they are, and which tool has their text.

Sources: ELF gABI (e_machine; EM_CUDA is 190, EM_AMDGPU 224), cuda/fatbinary_section.h, Clang's
offload bundler, LLVM's bitcode format.
"""

from __future__ import annotations

from titan.foundation.records import dataclass


@dataclass(frozen=True, slots=True)
class BinaryKind:
    """`words` follow "this is"."""

    words: str
    helps: tuple[str, ...] = ()


_PTX = (
    "`cuobjdump -ptx FILE` prints the PTX in it, where the compiler kept it; `nvcc -ptx` writes it"
)
_ASSEMBLY = "the compiler writes the assembly (`-S`; Triton: `kernel.asm['amdgcn']`)"
_HOST = "PTX in it is printed by `cuobjdump -ptx FILE`, code objects by `llvm-objdump --offloading`"
_UNPACK = ("unpack it first",)
_ELF_MACHINES = {
    190: BinaryKind(
        "machine code for NVIDIA GPUs (a cubin)",
        (_PTX, "`titan inspect` shows the loops of a cubin"),
    ),
    224: BinaryKind(
        "machine code for AMD GPUs (a code object)",
        (f"{_ASSEMBLY}; `llvm-objdump -d FILE` prints the instructions alone",),
    ),
}
_BEGINNINGS = (
    (b"\x50\xed\x55\xba", BinaryKind("a fat binary of CUDA", (_PTX,))),
    (b"__CLANG_OFFLOAD_BUNDLE__", BinaryKind("a bundle of code objects of clang", (_ASSEMBLY,))),
    (b"CCOB", BinaryKind("a compressed bundle of code objects of clang", (_ASSEMBLY,))),
    (b"BC\xc0\xde", BinaryKind("bitcode of LLVM", ("`llc FILE` writes its assembly",))),
    (b"ML\xefR", BinaryKind("bytecode of MLIR", ("`mlir-opt` or `triton-opt` prints its text",))),
    (b"!<arch>\n", BinaryKind("an archive of object files", (_HOST,))),
    (b"MZ\x90\x00", BinaryKind("a program of Windows", (_HOST,))),
    (b"\x1f\x8b", BinaryKind("compressed by gzip", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", BinaryKind("compressed by zstd", _UNPACK)),
    (b"BZh", BinaryKind("compressed by bzip2", _UNPACK)),
    (b"\xfd7zXZ\x00", BinaryKind("compressed by xz", _UNPACK)),
    (b"PK\x03\x04", BinaryKind("a zip archive", _UNPACK)),
)
_UTF16 = BinaryKind("UTF-16 text", ("save it as UTF-8 (`iconv -f UTF-16 -t UTF-8`)",))


def binary_kind(data: bytes) -> BinaryKind | None:
    """The kind of a file from its first bytes; None where it may be text."""
    if data.startswith(b"\x7fELF") and len(data) >= 20:
        machine = int.from_bytes(data[18:20], "big" if data[5] == 2 else "little")
        return _ELF_MACHINES.get(machine, BinaryKind("an object file or program (ELF)", (_HOST,)))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _UTF16
    return next((kind for start, kind in _BEGINNINGS if data.startswith(start)), None)
