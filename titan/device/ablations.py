"""Variants of kernels that were built ahead (`titan bench --prepare`), timed side by side.

The folder holds `ablations.json` and a folder for each variant that could be built. Each variant is
checked for small sizes and timed like any package, here without a library next to it; the product
stands in the same table, and every time is divided by that of the product.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from titan.device import bench, cycles, fit
from titan.device.documents import FittedMachine, VariantEntry, VariantRow, VariantsDocument
from titan.device.records import DeviceFacts, WatchOptions
from titan.foundation.errors import UserError

INDEX = "ablations.json"
PRODUCT = "product"


class BadIndex(UserError):
    """The folder holds no variants, or an index that is none; the text says why."""


def read(folder: Path) -> list[VariantEntry]:
    """The variants of an index. Raises BadIndex."""
    try:
        data = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if data["titan"] != "1" or data["kind"] != "ablations":
            raise BadIndex(f"{folder / INDEX} has another format")
        rows: list[VariantEntry] = list(data["variants"])
        for row in rows:
            place = row["folder"]
            if place is not None and (place != Path(str(place)).name or place.startswith(".")):
                raise BadIndex(f"{folder / INDEX} names a strange folder")
            _ = row["kernel"], row["target"], row["axis"], row["setting"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadIndex(f"{folder / INDEX}: {error}") from None
    return rows


def run(
    folder: Path,
    facts: DeviceFacts,
    settings: bench.BenchSettings | None = None,
    report: Callable[[VariantRow], None] = lambda row: None,
    **options: Unpack[WatchOptions],
) -> Iterator[VariantRow]:
    """A row for each variant and size: a row of `bench` with axis, setting and the speed against
    the product. A folder that several variants share is timed once, without a library next to it.
    Raises BadIndex.
    """
    alone = replace(settings or bench.BenchSettings(), peers=False)
    known: dict[str, list[bench.BenchRow]] = {}
    base: dict[tuple[str, str], float] = {}
    for variant in read(folder):
        for row in _rows(folder, variant, known, facts, alone, options):
            key = (f"{variant['kernel']}-{variant['target']}", json.dumps(row["sizes"]))
            if variant["axis"] == PRODUCT and row["seconds"]:
                base[key] = row["seconds"]
            first = base.get(key)
            row["against_product"] = first / row["seconds"] if first and row["seconds"] else None
            report(row)
            yield row


def _rows(
    folder: Path, variant: VariantEntry, known: dict[str, list[bench.BenchRow]], facts: DeviceFacts,
    settings: bench.BenchSettings, options: WatchOptions,
) -> Iterator[VariantRow]:  # fmt: skip
    place = variant["folder"]
    if place is None:
        row = bench.BenchRow(
            str(variant["kernel"]), str(variant["target"]), {}, "not built",
            message=str(variant.get("reason", "")),
        )  # fmt: skip
        yield _named(row, variant)
        return
    if place not in known:
        timed = bench.bench(
            [folder / place], facts, settings, terms={folder / place: variant.get("terms", {})},
            **options,
        )  # fmt: skip
        known[place] = list(timed)
    for row in known[place]:
        yield _named(row, variant)


def _named(row: bench.BenchRow, variant: VariantEntry) -> VariantRow:
    return {
        **bench.row_data(row), "axis": variant["axis"], "setting": variant["setting"],
        "about": variant.get("about", ""), "shape": variant.get("shape", ""),
        "compiled": variant.get("compiled"),
    }  # fmt: skip


def document(facts: DeviceFacts, rows: Sequence[VariantRow]) -> VariantsDocument:
    """The rows as data."""
    return {
        "kind": "ablations", "date": datetime.date.today().isoformat(), "device": facts,
        "rows": list(rows),
    }  # fmt: skip


def line(row: VariantRow) -> str:
    """One line for a person."""
    head = f"{row['package']}, {row['axis']} {row['setting']}"
    if row["seconds"] is None:
        return f"{head}: {row['state']}; {row['message']}"
    sizes = ", ".join(f"{name}={value}" for name, value in row["sizes"].items())
    text = f"{head}, {sizes}: {row['seconds'] * 1e6:.1f} us"
    ratio = row.get("against_product")
    if ratio is not None:
        text += f", {ratio:.2f} of the speed of the product"
    return text


# ------------------------------------------------------------------------------ the machine


def fitted(
    folder: Path,
    facts: DeviceFacts,
    report: Callable[[cycles.CycleRow], None] = lambda row: None,
    until: float | None = None,
    **options: Unpack[WatchOptions],
) -> tuple[list[cycles.CycleRow], list[FittedMachine]]:
    """Cycles of all variants with terms, and a fitted machine for each target. Raises BadIndex."""
    by_target: dict[str, dict[Path, VariantEntry]] = {}
    for variant in read(folder):
        if variant["folder"] is not None and variant.get("terms"):
            places = by_target.setdefault(str(variant["target"]), {})
            places.setdefault(folder / variant["folder"], variant)
    rows: list[cycles.CycleRow] = []
    machines = []
    for target, places in sorted(by_target.items()):
        terms = {place: variant["terms"] for place, variant in places.items()}
        mine = list(cycles.measure(list(places), terms, report, until=until, **options))
        rows += mine
        found = fit.fit([row.observation for row in mine if row.observation is not None])
        chains = [
            float(variant["terms"]["ring"]) * int(variant["depth"])
            for variant in places.values()
            if "ring" in variant["terms"]
        ]
        rates = next(iter(places.values())).get("rates", {})
        ring = sum(chains) / len(chains) if chains else None
        machines.append(fit.document(facts, target, found, rates, ring))
    return rows, machines
