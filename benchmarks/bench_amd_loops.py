"""What main loops of emitted AMD kernels and of Triton's cost: in docs/reference/sass.md.

    python -m benchmarks.bench_amd_loops --packages before=DIR --packages after=DIR --peers DIR
        [--ck DIR] [--hipblaslt DIR] [--aiter DIR] [--out FILE] [--keep] [--page FILE]

`--packages LABEL=DIR`: folders of packages that `titan build` wrote. `--peers DIR`: assembly that
`benchmarks/amd/triton_files.py` wrote, attention of the head dimension that it was asked for; `--ck
DIR`: what `benchmarks/amd/composable_kernel.py` wrote. `--hipblaslt DIR` and `--aiter DIR` are
checkouts: kernels that are kept as assembly and as machine code. With `--keep` rows of FILE stay
that are not measured. Needs clang 22. Products differ in size, so that instructions are compared
for each 8192 multiply-adds of a wave (one product of 32 x 32 x 8).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.pages import write_between
from titan.foundation.errors import TitanError
from titan.foundation.scratch import scratch
from titan.frontends.ptx.launch import read_launch
from titan.inspect import machine
from titan.inspect.counts import count
from titan.inspect.listing import MachineFunction, read_listing
from titan.inspect.loops import loops
from titan.target.description import target_of
from titan.validate.compare.gcn_compile import CLANG, OBJDUMP, READELF
from titan.validate.compare.toolchain import run

BEGIN, END = "<!-- amd -->", "<!-- end of amd -->"
TARGETS = ("gfx942", "gfx950")
OURS = {
    "attention_forward_gfx942": "attention 128",
    "attention_forward_causal_64_gfx942": "attention 64",
    "gemm_gfx942": "gemm",
    "gemm_large_gfx942": "gemm",
}
PEERS = {
    "attention_128_2_stages": ("attention 128", "Triton, f16"),
    "attention_128_bf16_2_stages": ("attention 128", "Triton, bf16"),
    "attention_2_stages": ("attention 64", "Triton, f16"),
    "attention_bf16_2_stages": ("attention 64", "Triton, bf16"),
    "gemm_2_stages": ("gemm", "Triton, f16"),
}
# Of the folders of composable_kernel.py, and of checkouts: file, target, problem, who.
OTHERS = {
    "ck": [  # the checkout that was read knows no gfx950
        (f"ck_gemm_{kind}_{tile}_{pipeline}_gfx942.s", "gfx942", "gemm",
         f"Composable Kernel, {kind}, {tile}, {named}")
        for kind, tile, pipeline, named in (
            ("f16", "256x256", "v3", "v3"), ("bf16", "256x256", "v3", "v3"),
            ("f16", "128x128", "v3", "v3"), ("f16", "128x128", "inter", "v1 between waves"),
            ("f16", "256x256", "v4", "v4"), ("f16", "256x256", "v5", "v5"),
        )
    ],
    "hipblaslt": [
        (f"tensilelite/Tensile/CustomKernels/Custom_Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_"
         f"MT{tile}x64_MI16x16x1_SN_K1_MIWT4_{rows}_DTVA.s", "gfx942", "gemm",
         f"hipBLASLt, bf16, {tile}")
        for tile, rows in (("256x256", 16), ("256x224", 14))
    ],
    "aiter": [
        *((f"hsa/gfx942/fmha_v3_fwd/MI300/fwd_hd128_bf16_{mode}.co", "gfx942", "attention 128",
           f"aiter, bf16, {named}")
          for mode, named in (("rtne", "to nearest even"), ("rtz", "to zero"))),
        ("hsa/gfx950/fmha_v3_fwd/fwd_hd128_bf16.co", "gfx950", "attention 128", "aiter, bf16"),
        ("hsa/gfx950/bf16gemm/bf16gemm_bf16_tn_256x256.co", "gfx950", "gemm",
         "aiter, bf16, 256x256"),
    ],
}  # fmt: skip
_FIGURES = ("vgpr_count", "group_segment_fixed_size", "max_flat_workgroup_size")
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


class Measured(NamedTuple):
    """A function of machine code; bytes of spills, of LDS, and threads of its work-group."""

    function: MachineFunction
    registers: int
    spill_bytes: int
    group_lds: int
    threads: int


def of_package(path: Path) -> list[Measured]:
    """The functions of a package."""
    _, figures, functions = machine.read(path)
    assert figures is not None
    launch = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["launch"]
    shared, threads = int(launch["dynamic_shared_bytes"]), int(launch["block"])
    return [
        Measured(function, figures.registers, figures.spill_bytes, shared, threads)
        for function in functions
    ]


def of_code(path: Path, target: str) -> list[Measured]:
    """The functions of an assembly file or of a code object, with the figures in its notes."""
    with scratch("titan-amd-") as folder:
        made = path
        if path.suffix == ".s":
            made, source = Path(folder) / "kernel.co", Path(folder) / "kernel.s"
            # Triton's LLVM is newer than clang 22 and calls the target otherwise.
            text = path.read_text(encoding="utf-8")
            source.write_text(_TARGET.sub(f'\\1"amdgcn-amd-amdhsa--{target}"', text), "utf-8")
            run([CLANG, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}",
                 str(source), "-o", str(made)])  # fmt: skip
        notes = re.split(r"^ {2}- ", run([READELF, "-n", str(made)]), flags=re.M)
        functions = read_listing(run([OBJDUMP, "-d", f"--mcpu={target}", str(made)]))
        described = run([OBJDUMP, "-D", "--section=.rodata", str(made)])
    asked = dict(re.findall(r"\.amdhsa_kernel (\S+)(?:\n.*)*?next_free_vgpr (\d+)", described))
    found = []
    kernels = [one for one in notes if f".{_FIGURES[0]}:" in one]
    for function in functions:
        # Labels that a file keeps as symbols begin functions here: of a kernel alone in its file.
        of = next((one for one in kernels if f" {function.name}\n" in one), kernels[-1])
        figures = dict(re.findall(r"\.(\w+): *(\d+)$", of, flags=re.M))
        registers, shared, threads = (int(figures[name]) for name in _FIGURES)
        # Notes that are written by hand may leave out those of products.
        registers = max(registers, int(asked.get(function.name, max(asked.values(), key=int))))
        spilled = int(figures.get("vgpr_spill_count", 0)) + int(figures.get("sgpr_spill_count", 0))
        found.append(Measured(function, registers, 4 * spilled, shared, threads))
    launch = path.with_suffix(".launch.yaml")
    if launch.exists():
        described, errors = read_launch(str(launch))
        assert described is not None, errors
        given = described.shared_bytes or 0
        found = [
            one._replace(group_lds=max(given, one.group_lds), threads=described.block[0])
            for one in found
        ]
    return found


def row_of(path: Path, problem: str, who: str, target: str) -> Row | None:
    """The counts of the loop with the most products; None where none has any."""
    best: Row | None = None
    for one in of_package(path) if path.is_dir() else of_code(path, target):
        function = one.function
        usual = {loop.begin: loop.usual for loop in count(function).loops}
        for loop in loops(function):
            names = [function.instructions[number].name for number in loop.own]
            work = sum(map(_products, names))
            if not work or (best and work <= int(str(best["work"]))):
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
                "registers": one.registers, "spill_bytes": one.spill_bytes,
                "group_lds": one.group_lds, "threads": one.threads,
            }  # fmt: skip
    return best


def waves_a_simd(row: Row, target: str) -> int:
    """Waves that a SIMD has registers for, and its compute unit LDS for their work-groups."""
    registers, lds, threads = (int(str(row[key])) for key in ("registers", "group_lds", "threads"))
    by_registers = REGISTERS // -(-registers // 8) // 8
    groups = target_of(target).shared_bytes // lds if lds else by_registers
    return min(8, by_registers, groups * (threads // 64) // SIMDS)


def rows(packages: list[str], peers: Path | None, others: dict[str, Path | None]) -> list[Row]:
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
    for name, folder in others.items():
        if folder is not None:
            wanted += [
                (folder / file, problem, who, target) for file, target, problem, who in OTHERS[name]
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
    return found


def together(found: list[Row], kept: list[Row]) -> list[Row]:
    """What was measured, and what was before and is not again; of a problem and target in a row."""
    new = {(row["problem"], row["target"], row["kernel"]): row for row in found}
    old = {(row["problem"], row["target"], row["kernel"]): row for row in kept}
    order = list(OURS.values())
    return sorted(
        (old | new).values(),
        key=lambda row: (order.index(str(row["problem"])), str(row["target"])),
    )


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
    for name in OTHERS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    others = {name: getattr(arguments, name) for name in OTHERS}
    kept = arguments.keep and arguments.out is not None and arguments.out.exists()
    found = together(
        rows(arguments.packages, arguments.peers, others),
        json.loads(arguments.out.read_text(encoding="utf-8")) if kept else [],
    )
    print(table(found))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.page is not None:
        write_between(arguments.page, BEGIN, END, table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
