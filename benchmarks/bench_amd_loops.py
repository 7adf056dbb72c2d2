"""What main loops of emitted AMD kernels and of Triton's cost: in docs/reference/sass.md.

    python -m benchmarks.bench_amd_loops --packages before=DIR --packages after=DIR --peers DIR
        [--out FILE] [--page FILE]

`--packages LABEL=DIR`: folders of packages that `titan build` wrote. `--peers DIR`: assembly that
`benchmarks/amd/triton_files.py` wrote, attention of the head dimension that it was asked for. Needs
clang 22. Products differ in size, so that instructions are compared for each 8192 multiply-adds of
a wave (one product of 32 x 32 x 8).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from benchmarks.pages import write_between
from titan.foundation.errors import TitanError
from titan.foundation.scratch import scratch
from titan.frontends.ptx.launch import read_launch
from titan.inspect import machine
from titan.inspect.counts import count
from titan.inspect.listing import MachineFunction, read_listing
from titan.inspect.loops import loops
from titan.target.description import target_of
from titan.validate.compare.gcn_compile import CLANG, OBJDUMP, READELF, figures_of
from titan.validate.compare.toolchain import Figures, run

BEGIN, END = "<!-- amd -->", "<!-- end of amd -->"
TARGETS = ("gfx942", "gfx950")
OURS = {
    "attention_forward_gfx942": "attention 128",
    "attention_forward_causal_64_gfx942": "attention 64",
    "gemm_gfx942": "gemm",
}
PEERS = {
    "attention_128_2_stages": ("attention 128", "Triton, f16"),
    "attention_128_bf16_2_stages": ("attention 128", "Triton, bf16"),
    "attention_2_stages": ("attention 64", "Triton, f16"),
    "attention_bf16_2_stages": ("attention 64", "Triton, bf16"),
    "gemm_2_stages": ("gemm", "Triton, f16"),
}
_READ = re.compile(r"^ds_read(2)?(?:st64)?_[bu](\d+)")
_PRODUCT = re.compile(r"^v_mfma_\w+?_(\d+)x(\d+)x(\d+)")
_TARGET = re.compile(r"(\.amdgcn_target\s+|amdhsa\.target:\s+)\S+")
UNIT = 32 * 32 * 8
REGISTERS = 512  # of a lane of a SIMD, for all waves on it
SIMDS = 4  # of a compute unit
Row = dict[str, object]


def _products(name: str) -> int:
    shape = _PRODUCT.match(name)
    return int(shape[1]) * int(shape[2]) * int(shape[3]) if shape else 0


def _read_bytes(name: str) -> int:
    """What a wave reads of LDS with an instruction."""
    shape = _READ.match(name)
    return 64 * int(shape[2]) // 8 * (2 if shape[1] else 1) if shape else 0


def assembled(path: Path, target: str) -> tuple[Figures, tuple[MachineFunction, ...]]:
    """The figures and functions of an assembly file."""
    with scratch("titan-amd-") as folder:
        made, source = str(Path(folder) / "kernel.co"), Path(folder) / "kernel.s"
        # Triton's LLVM is newer than clang 22 and calls the target otherwise.
        named = _TARGET.sub(f'\\1"amdgcn-amd-amdhsa--{target}"', path.read_text(encoding="utf-8"))
        source.write_text(named, encoding="utf-8")
        run([CLANG, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}",
             str(source), "-o", made])  # fmt: skip
        figures = figures_of(run([READELF, "-n", made]))
        return figures, read_listing(run([OBJDUMP, "-d", f"--mcpu={target}", made]))


def row_of(path: Path, problem: str, who: str, target: str) -> Row | None:
    """The counts of the loop with the most products; None where none has any."""
    if path.is_dir():
        _, figures, functions = machine.read(path)
    else:
        figures, functions = assembled(path, target)
    best: Row | None = None
    lds, threads = launched(path)
    for function in functions:
        usual = {loop.begin: loop.usual for loop in count(function).loops}
        for loop in loops(function):
            names = [function.instructions[number].name for number in loop.own]
            work = sum(map(_products, names))
            if figures is None or not work or (best and work <= int(str(best["work"]))):
                continue
            best = {
                "problem": problem, "kernel": who, "target": target, "work": work,
                "instructions": len(names),
                "usual": usual.get(function.instructions[loop.head].address, len(names)),
                "products": sum(name.startswith("v_mfma") for name in names),
                "short": sum(name.startswith("ds_read_u16") for name in names),
                "lds": sum(name.startswith("ds_") for name in names),
                "lds_bytes": sum(map(_read_bytes, names)),
                "sums": sum(name.startswith(("v_add_u32", "v_add3", "v_lshl")) for name in names),
                "registers": figures.registers, "spill_bytes": figures.spill_bytes,
                "group_lds": lds, "threads": threads,
            }  # fmt: skip
    return best


def waves_a_simd(row: Row, target: str) -> int:
    """Waves that a SIMD has registers for, and its compute unit LDS for their work-groups."""
    registers, lds, threads = (int(str(row[key])) for key in ("registers", "group_lds", "threads"))
    by_registers = REGISTERS // -(-registers // 8) // 8
    groups = target_of(target).shared_bytes // lds if lds else by_registers
    return min(8, by_registers, groups * (threads // 64) // SIMDS)


def launched(path: Path) -> tuple[int, int]:
    """Bytes of LDS and threads of a work-group: of a package, or in the launch beside a file."""
    if path.is_dir():
        launch = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["launch"]
        return int(launch["dynamic_shared_bytes"]), int(launch["block"])
    described, errors = read_launch(str(path.with_suffix(".launch.yaml")))
    assert described is not None, errors
    return described.shared_bytes or 0, described.block[0]


def rows(packages: list[str], peers: Path | None) -> list[Row]:
    """All rows, those of one problem and target together."""
    wanted = [
        (Path(folder) / f"{name}-{target}", problem, f"`{name}`, {label}", target)
        for label, folder in (text.split("=", 1) for text in packages)
        for name, problem in OURS.items()
        for target in TARGETS
    ]
    if peers is not None:
        wanted += [
            (peers / f"{file}_{target}.s", problem, who, target)
            for file, (problem, who) in PEERS.items()
            for target in TARGETS
        ]
    found = []
    for path, problem, who, target in wanted:
        if not path.exists():
            continue
        try:
            row = row_of(path, problem, who, target)
        except TitanError as reason:
            print(f"{who}: {reason}", file=sys.stderr)
            continue
        found += [row] if row is not None else []
    order = list(OURS.values())
    return sorted(found, key=lambda row: (order.index(str(row["problem"])), str(row["target"])))


def table(found: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| problem | target | kernel | instructions | products"
        " | instructions for 8192 multiply-adds (usual way) | LDS instructions | of 2 bytes"
        " | bytes read of LDS for 8192 multiply-adds"
        " | address sums, shifts | registers, LDS of a work-group, waves a SIMD |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        instructions, work = int(str(row["instructions"])), int(str(row["work"]))
        registers = int(str(row["registers"]))
        lines.append(
            f"| {row['problem']} | {row['target']} | {row['kernel']} | {instructions}"
            f" | {row['products']} | {instructions * UNIT / work:.1f}"
            f" ({int(str(row['usual'])) * UNIT / work:.1f}) | {row['lds']}"
            f" | {row['short']} | {int(str(row['lds_bytes'])) * UNIT / work:.0f} | {row['sums']}"
            f" | {registers}, {int(str(row['group_lds'])) // 1024} KiB,"
            f" {waves_a_simd(row, str(row['target']))} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--packages", action="append", default=[], metavar="LABEL=DIR")
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    found = rows(arguments.packages, arguments.peers)
    print(table(found))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.page is not None:
        write_between(arguments.page, BEGIN, END, table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
