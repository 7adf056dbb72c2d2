"""What the main loops of emitted kernels and of their peers cost: docs/reference/sass.md.

    python benchmarks/bench_sass.py --packages before=DIR --packages after=DIR --peers DIR
        [--ptxas FILE] [--out FILE] [--page FILE]

`--packages LABEL=DIR`: folders of packages that `titan build` wrote. `--peers DIR`: PTX of other
generators by the file names below, as they compile or record it (docs/reference/real_code.md says
how such files are made). What is given decides which tables are made: that of products by
warpgroups (sm_90a), that of the roles of attention in tensor memory, and that of the thread that
issues products in tensor memory (sm_100a). Everything is assembled by one ptxas, which has to know
the newest of the PTX versions. Numbers are kept, code is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import sass_issuer  # noqa: E402
import sass_roles  # noqa: E402
from bench_library import BEGIN, END  # noqa: E402
from pages import write_between  # noqa: E402

from titan.foundation.errors import TitanError  # noqa: E402
from titan.inspect import machine  # noqa: E402
from titan.inspect.counts import count  # noqa: E402

# Peers: file, part of the kernel's name, problem, who.
PEERS = (
    ("cutlass_cooperative", "", "gemm", "CUTLASS 128x128x64 cooperative"),
    ("cutlass_cooperative_cluster2", "", "gemm, pairs", "CUTLASS 128x128x64, cluster 2"),
    ("cutlass_pingpong", "", "gemm, persistent", "CUTLASS 64x128x64 ping-pong"),
    ("triton_gemm_sm90_128x256x64_w8_ws0_s3", "", "gemm", "Triton 128x256x64"),
    ("triton_gemm_persistent_sm90_ws0", "", "gemm, persistent", "Triton 128x128x64"),
    ("tilelang_ws_gemm", "", "gemm", "TileLang, warp-specialised"),
    ("fa3_prefill_causal0", "Prefill", "attention 128", "FlashAttention-3 (FlashInfer)"),
    ("fa3_prefill_causal1", "Prefill", "causal attention 128", "FlashAttention-3 (FlashInfer)"),
    ("fa_sm90_forward_128", "", "attention 128", "FlashAttention (CuTe DSL)"),
    ("fa_sm90_forward_128_causal", "", "causal attention 128", "FlashAttention (CuTe DSL)"),
    ("fa_sm90_forward_64", "", "attention 64", "FlashAttention (CuTe DSL)"),
    ("fa_sm90_forward_64_causal", "", "causal attention 64", "FlashAttention (CuTe DSL)"),
    ("fa_sm90_forward_256", "", "attention 256", "FlashAttention (CuTe DSL)"),
    ("fa_sm90_forward_256_causal", "", "causal attention 256", "FlashAttention (CuTe DSL)"),
    ("triton_attention_sm90_ws0", "", "attention 64", "Triton"),
    ("fa_bwd_128_0_sm_90a", "", "attention backward 128", "FlashAttention (CuTe DSL)"),
    ("fa_bwd_128_1_sm_90a", "", "causal attention backward 128", "FlashAttention (CuTe DSL)"),
)  # fmt: skip
OURS = {
    "gemm": "gemm", "gemm_large": "gemm, pairs", "gemm_cluster2": "gemm, pairs",
    "gemm_persistent": "gemm, persistent", "gemm_ping_pong": "gemm, persistent",
    "attention_forward": "attention 128",
    "attention_forward_causal": "causal attention 128", "attention_forward_64": "attention 64",
    "attention_forward_causal_64": "causal attention 64",
    "attention_forward_256": "attention 256",
    "attention_forward_causal_256": "causal attention 256",
    "attention_backward": "attention backward 128",
    "attention_backward_causal": "causal attention backward 128",
    **dict.fromkeys(
        ("attention_backward_dkv", "attention_backward_dq"), "attention backward 128, two kernels"
    ),
}  # fmt: skip
STORES = ("STS", "STSM")  # to shared memory: 4 to 16 bytes a lane, or matrices
Row = dict[str, object]


def row_of(path: Path, problem: str, who: str, part: str, assembler: Path | None) -> Row | None:
    """The counts of the main loop; None where the kernel has none."""
    compiler, figures, functions = machine.read(path, assembler)
    kernels = [(count(function), function) for function in functions if part in function.name]
    busy = [pair for pair in kernels if pair[0].main is not None]
    if not busy:
        return None
    kernel, whole = max(busy, key=lambda pair: pair[0].main.tensor if pair[0].main else 0)
    loop = kernel.main
    assert loop is not None and figures is not None
    return {
        "problem": problem, "kernel": who, "compiler": compiler, "tensor": loop.tensor,
        "instructions": loop.instructions, "least": loop.least,
        "tensor_cycles": loop.tensor_cycles, "turn": loop.turn,
        "fences": sum(sum(one.fences.values()) for one in kernel.loops),
        "registers": figures.registers, "spill_bytes": figures.spill_bytes,
        "whole": kernel.instructions,
        "stores": sum(item.name.startswith(STORES) for item in whole.instructions),
    }  # fmt: skip


def rows(arguments: argparse.Namespace) -> list[Row]:
    """All rows, those of one problem together."""
    found: list[Row] = []
    wanted: list[tuple[Path, str, str, str]] = []
    for text in arguments.packages:
        label, _, folder = text.partition("=")
        for name, problem in OURS.items():
            place = Path(folder) / f"{name}-sm_90a"
            if place.is_dir():
                wanted.append((place, problem, f"`{name}`, {label}", ""))
    if arguments.peers is not None:
        wanted += [
            (arguments.peers / f"{file}.ptx", problem, who, part)
            for file, part, problem, who in PEERS
            if (arguments.peers / f"{file}.ptx").is_file()
        ]
    for path, problem, who, part in wanted:
        try:
            row = row_of(path, problem, who, part, arguments.ptxas)
        except TitanError as reason:
            print(f"{who}: {reason}", file=sys.stderr)
            continue
        if row is not None:
            found.append(row)
    order = list(dict.fromkeys(str(row["problem"]) for row in found))
    return sorted(found, key=lambda row: order.index(str(row["problem"])))


def ratio(first: object, second: object) -> str:
    """A quotient of two counts, where both are known."""
    if not isinstance(first, int | float) or not isinstance(second, int | float) or not second:
        return ""
    return f"{first / second:.2f}" if first / second < 10 else f"{first / second:.1f}"


def table(found: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| problem | kernel | instructions (shortest way) | of the tensor cores | for each"
        " (shortest way) | issue slots a tensor-core cycle | between named barriers | costly fences"
        " | whole kernel | stores to shared memory | registers, spilled bytes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        turn = row["turn"] if row["turn"] is not None else ""
        lines.append(
            f"| {row['problem']} | {row['kernel']} | {row['instructions']} ({row['least']})"
            f" | {row['tensor']}"
            f" | {ratio(row['instructions'], row['tensor'])} ({ratio(row['least'], row['tensor'])})"
            f" | {ratio(row['least'], row['tensor_cycles'])} | {turn} | {row['fences']}"
            f" | {row['whole']} | {row['stores']}"
            f" | {row['registers']}, {row['spill_bytes']} |"
        )
    compilers = ", ".join(dict.fromkeys(str(row["compiler"]) for row in found))
    return "\n".join([*lines, "", f"Assembled by {compilers}."]) + "\n"


def main() -> int:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--packages", action="append", default=[], metavar="LABEL=DIR")
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--ptxas", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--keep", action="store_true",
                        help="rows in --out of kernels that are not measured stay")  # fmt: skip
    arguments = parser.parse_args()
    for found, suffix, made, marks in (
        (rows(arguments), "", table, (BEGIN, END)),
        (sass_roles.rows(arguments), "_roles", sass_roles.table,
         (sass_roles.BEGIN, sass_roles.END)),
        (sass_issuer.rows(arguments), "_issuer", sass_issuer.table,
         (sass_issuer.BEGIN, sass_issuer.END)),
    ):  # fmt: skip
        out = arguments.out and arguments.out.with_name(f"{arguments.out.stem}{suffix}.json")
        if found:
            every = with_stored(found, out) if arguments.keep and out else found
            keep(every, out, made(every), arguments.page, marks)
    return 0


def with_stored(found: list[Row], out: Path) -> list[Row]:
    """The stored rows with those that were measured again in their places, new ones at the end."""
    new = {(row["problem"], row["kernel"]): row for row in found}
    stored = json.loads(out.read_text("utf-8")) if out.exists() else []
    return [*(new.pop((row["problem"], row["kernel"]), row) for row in stored), *new.values()]


def keep(
    found: list[Row], out: Path | None, text: str, page: Path | None, marks: tuple[str, str]
) -> None:
    """Print a table; write its rows and put it into the page where these are asked for."""
    print(text)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if page is not None:
        write_between(page, *marks, text)


if __name__ == "__main__":
    sys.exit(main())
