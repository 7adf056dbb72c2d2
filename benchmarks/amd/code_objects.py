"""Writes the assembly of code objects that ship without a source, as `titan verify` reads it.

    python benchmarks/amd/code_objects.py FOLDER FILE.co...

Kernels that are written by hand or generated are often kept as code objects alone. LLVM's tools say
all that is in one: the instructions with their labels, the descriptors and the metadata.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

OBJDUMP, READELF = "llvm-objdump-22", "llvm-readelf-22"
_FUNCTION = re.compile(r"^[0-9a-f]{16} <(.+)>:$")
_CODE = re.compile(r"^\s+(\S.*?)\s*// ([0-9A-F]{12}):")
_PLACE = re.compile(r"^(s_c?branch\w*)\s+(\S+)")
# A tensor copy of gfx1250 with other bits than LLVM's assembler sets where they mean nothing.
_TENSOR = {"D0310000": "tensor_load_to_lds", "D0314000": "tensor_store_from_lds"}
_NULL = 0x7C
_TO = re.compile(r"<(\S+?)(?:\+0x([0-9a-f]+))?>\s*$")


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def code(file: Path) -> list[str]:
    """The instructions of all functions; every target of a branch is a label."""
    found: list[tuple[int, str, str]] = []  # address, text, function
    starts: dict[str, int] = {}
    targets: set[int] = set()
    function, pending = "", ""
    for line in _output(OBJDUMP, "-d", "--no-show-raw-insn", str(file)).splitlines():
        if (begun := _FUNCTION.match(line)) is not None:
            pending = begun.group(1)
            continue
        if (item := _CODE.match(line)) is None:
            continue
        address = int(item.group(2), 16)
        if pending:
            function, pending = pending, ""
            starts[function] = address
        found.append((address, item.group(1), line))
    found = _with_tensor_copies(found)
    symbols = _symbols(file)
    lines = []
    for address, text, line in found:
        branch = _PLACE.match(text)
        if branch is None:
            lines.append((address, text))
            continue
        to = _target(branch.group(2), line, {**symbols, **starts}, address)
        targets.add(to)
        lines.append((address, f"{branch.group(1)} L_{to:x}"))
    names = {address: name for name, address in starts.items()}
    kernels = _kernels(file)
    made = ["\t.text"]
    for address, text in lines:
        if address in names and names[address] in kernels:
            made += [f"{names[address]}:"]
        if address in targets:
            made.append(f"L_{address:x}:")
        made.append(f"\t{text}")
    return made


def _with_tensor_copies(lines: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Three words that are listed as data, and something else, as the copy that they are."""
    made = []
    at = 0
    while at < len(lines):
        address, text, line = lines[at]
        name = _TENSOR.get(text.removeprefix(".long 0x").upper())
        if name is not None and at + 2 < len(lines) and lines[at + 1][2].endswith("00000000"):
            last = int(lines[at + 2][2].split()[-1], 16)
            groups = [last >> 8 * place & 0xFF for place in range(4)]
            registers = [
                f"s[{first}:{first + (7 if place == 1 else 3)}]"
                for place, first in enumerate(groups)
                if first != _NULL
            ]
            made.append((address, f"{name} {', '.join(registers)}", line))
            at += 3
            continue
        made.append(lines[at])
        at += 1
    return made


def _target(operand: str, line: str, symbols: dict[str, int], address: int) -> int:
    if operand in symbols:
        return symbols[operand]
    if (to := _TO.search(line)) is not None and to.group(1) in symbols:
        return symbols[to.group(1)] + int(to.group(2) or "0", 16)
    distance = int(operand, 0)
    return address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)


def _symbols(file: Path) -> dict[str, int]:
    found = {}
    for line in _output(READELF, "-s", "-W", str(file)).splitlines():
        words = line.split()
        if len(words) == 8 and re.fullmatch(r"[0-9a-f]{16}", words[1]):
            found[words[7]] = int(words[1], 16)
    return found


def _kernels(file: Path) -> set[str]:
    return {name.removesuffix(".kd") for name in _symbols(file) if name.endswith(".kd")}


def descriptors(file: Path) -> list[str]:
    """The blocks `.amdhsa_kernel` to `.end_amdhsa_kernel`."""
    made, inside = [], False
    for line in _output(OBJDUMP, "-D", "--section=.rodata", str(file)).splitlines():
        inside = inside or line.startswith(".amdhsa_kernel")
        if inside:
            made.append(line)
        inside = inside and not line.startswith(".end_amdhsa_kernel")
    return made


def metadata(file: Path) -> list[str]:
    """The metadata in YAML."""
    made, inside = [], False
    for line in _output(READELF, "--notes", str(file)).splitlines():
        if line.strip() == "...":
            break
        if inside:
            made.append(line)
        inside = inside or line.strip() == "---"
    return [".amdgpu_metadata", *made, ".end_amdgpu_metadata"]


def target(file: Path) -> str:
    """The processor that the file is for, as its header says."""
    flags = re.search(r"Flags:.*\b(gfx[0-9a-f]+)", _output(READELF, "-h", str(file)))
    return flags.group(1) if flags is not None else "gfx942"


def main() -> None:
    """All files into the folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        file = Path(name)
        of = target(file)
        head = [f'\t.amdgcn_target "amdgcn-amd-amdhsa--{of}"']
        text = "\n".join([*head, *code(file), *descriptors(file), *metadata(file), ""])
        (folder / f"{file.stem}_{of}.s").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
