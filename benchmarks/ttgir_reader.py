"""Whether TITAN's reader of TTGIR finds what Triton's own reader finds. Needs Triton.

    python -m benchmarks.ttgir_reader FOLDER [FOLDER ...]

Every `.ttgir` below the folders is read by both; equal texts once. Compared are, of every
operation, its name, its results, its regions and, where operands stand apart from the arguments of
regions, its operands. One row of Markdown for each target; files that differ are listed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from titan.foundation.source.span import Source
from titan.frontends.ttgir.model import Block
from titan.frontends.ttgir.parse import parse_ttgir

# What stands between the operands of these are names of arguments of their regions.
MIXED = ("scf.for", "scf.while", "ttg.warp_specialize", "tt.reduce", "tt.scan")
# Triton's reader has operations for the frame that TITAN's reader has data for.
FRAME = ("builtin.module", "tt.func", "ttg.warp_specialize.partitions")
NOT_PRINTED = (
    "scf.yield",
    0,
    0,
    0,
)  # that yields nothing; at the end of a loop or an arm it may be left out
Found = Counter[tuple[str, int, int, int]]


def of_titan(block: Block) -> Iterator[tuple[str, int, int, int]]:
    """Name, results, regions and operands of each operation, as TITAN reads them."""
    for operation in block.operations:
        name = operation.name
        regions = len(operation.regions)
        yield (
            name,
            len(operation.results),
            -1 if name in MIXED or name == "scf.if" else regions,
            -1 if name in MIXED else len(operation.operands),
        )
        for region in operation.regions:
            yield from of_titan(region)


def of_triton(path: Path, context: Any) -> Found:
    """The same as Triton reads them."""
    from triton._C.libtriton import ir

    found: Found = Counter()

    def note(operation: Any) -> None:
        name = operation.get_name()
        if name in FRAME:
            return
        regions = -1 if name in MIXED or name == "scf.if" else operation.get_num_regions()
        operands = -1 if name in MIXED else operation.get_num_operands()
        found[name, operation.get_num_results(), regions, operands] += 1

    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    module.walk(note)
    del found[NOT_PRINTED]
    return found


def differences(path: Path, context: Any) -> tuple[str, int, list[str]]:
    """The target of a file, its operations, and where the two readers differ."""
    text = path.read_text(encoding="utf-8")
    module, errors = parse_ttgir(Source(str(path), text))
    if module is None:
        return "", 0, [item.headline for item in errors]
    ours: Found = Counter()
    for function in module.functions:
        ours.update(of_titan(function.body))
    del ours[NOT_PRINTED]
    target = module.attributes.get("ttg.target", "").strip('"')
    try:
        theirs = of_triton(path, context)
    except RuntimeError as error:
        return target, ours.total(), [f"Triton does not read it: {error}"]
    told = [f"TITAN alone: {item} x {count}" for item, count in (ours - theirs).items()]
    told += [f"Triton alone: {item} x {count}" for item, count in (theirs - ours).items()]
    return target, ours.total(), told


def triton_context() -> Any:
    """A context of Triton's reader with its dialects."""
    from triton._C.libtriton import amd, ir, nvidia

    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    amd.load_dialects(context)
    return context


def main() -> int:
    """Print the table; 1 where a file differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    places = [p for f in parser.parse_args().folders for p in sorted(f.rglob("*.ttgir"))]
    context = triton_context()
    rows: dict[str, list[int]] = {}
    seen: set[str] = set()
    for path in places:
        text = path.read_text(encoding="utf-8")
        if text in seen:
            continue
        seen.add(text)
        target, operations, told = differences(path, context)
        row = rows.setdefault(target, [0, 0, 0])
        row[0] += 1
        row[1] += operations
        row[2] += not told
        for line in told:
            print(f"{path.name}: {line}", file=sys.stderr)
    print("| target | files | operations | files in which both readers agree |")
    print("| --- | --- | --- | --- |")
    for target, row in sorted(rows.items()):
        print(f"| {target} | {row[0]} | {row[1]:,} | {row[2]} |")
    return int(any(row[0] != row[2] for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
