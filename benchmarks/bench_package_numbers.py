"""The packages that `titan build` writes for NVIDIA, by numbers: their PTX on the emulated device.

    python -m benchmarks.bench_package_numbers [--only TEXT] [--missing] [--safe] [--write]

Needs nvcc. Each tile program is built and emitted for each NVIDIA target that it names. Its PTX
runs at several sizes (trip counts below, at and beyond the depth of its rings, whole and ragged
tiles) under the policies of `titan stress --backend emulated`, and has to give the numbers of the
tile program. Its unsafe variants run likewise: a variant is seen by numbers where some run is
wrong, hangs or faults, and by the checker where a launch is refuted; `--safe` leaves them out.
`--missing` takes only packages whose stored row is not there or says nothing of variants.
`--write` puts the table into
docs/reference/real_code.md and the rows into benchmarks/results/package_numbers.json, where those
of other packages stay, and what was seen of variants that are left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.codegen.emit.model import Emitted
from titan.codegen.emit.write import EmissionRefused, emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.manifest import Manifest
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.stored import as_data
from titan.device.emulated import ADVERSARIAL, CHECKED, EmulatedPackage
from titan.device.manifests import Sizes
from titan.device.packages import References, emulated_run
from titan.device.records import NOT_RUN, RunCase
from titan.device.sizes import sizes_for
from titan.device.variants import SAFE, variants
from titan.foundation.resources import root
from titan.target.completion import Vendor
from titan.target.description import generated_targets
from titan.validate.compare.toolchain import CannotCompile

HEAD: Row = (
    "package", "target", "sizes", "runs", "seconds", "numbers", "error / tolerance",
    "unsafe variants",
)  # fmt: skip
SIZES_MAX = 3
# One launch more where data decide what is computed, or where each work item has the same number of
# iterations: elements in all of them.
MORE_SIZES: dict[str, Sizes] = {
    "attention_backward_delta": {"heads": 2, "queries": 1032},
    "attention_decode_paged": {
        "batch": 6, "kv_heads": 1, "ratio": 8, "pages": 160, "pages_most": 12,
    },
    "attention_forward_causal_packed": {
        "batch": 3, "longest": 700, "kv_heads": 1, "ratio": 2, "tokens": 710,
    },
    "attention_forward_packed": {
        "batch": 3, "longest": 160, "kv_heads": 1, "ratio": 2, "queries": 320, "keys": 840,
    },
    "attention_forward_causal_packed_sm_100a": {
        "batch": 3, "longest": 700, "kv_heads": 1, "ratio": 2, "tokens": 710,
    },
    "attention_forward_packed_sm_100a": {
        "batch": 3, "longest": 160, "kv_heads": 1, "ratio": 2, "queries": 320, "keys": 840,
    },
    "gemm_fp8_scaled_grouped": {"experts": 4, "M": 520, "N": 136, "K": 384},
    "gemm_grouped": {"experts": 4, "M": 520, "N": 136, "K": 320},
    "gemm_grouped_sm_100a": {"experts": 4, "M": 520, "N": 264, "K": 320},
    "layer_norm": {"M": 1032},
    "rms_norm": {"M": 1032},
    "rms_norm_rotary": {"batch": 2, "halves": 4, "tokens": 520, "positions": 160},
    "softmax_rows": {"M": 1032},
}  # fmt: skip
SEEDS_CHECKED = 3  # of a variant that no run shows: data may decide how far its loops go
RIGHT, SEEN_BY_RUN, SEEN_BY_CHECK, UNSEEN = "correct", "numbers", "check", "not seen"


@dataclass(slots=True)
class Tried:
    """What runs of one text gave: `worst` is the largest error over its tolerance."""

    runs: int = 0
    worst: float = 0.0
    failures: list[str] = field(default_factory=list)


def tried(
    package: EmulatedPackage, references: References, sizes: Sequence[Sizes],
    policies: Sequence[str], *, first: bool = False,
) -> Tried:  # fmt: skip
    """Runs of all sizes under all policies; with `first`, until one of them is not correct."""
    found = Tried()
    for seed, policy in enumerate(policies):
        for one in sizes:
            case: RunCase = {"sizes": one, "seed": seed, "policy": policy}
            record = emulated_run(package, references, case)
            found.runs += 1
            found.worst = max(found.worst, float(record.get("error", 0.0)))
            if record["state"] != RIGHT:
                shown = ", ".join(f"{name} {value}" for name, value in one.items())
                found.failures.append(f"{record['state']} ({policy}, {shown}): {record['message']}")
                if first:
                    return found
    return found


def seen(package: EmulatedPackage, references: References, sizes: Sequence[Sizes]) -> str:
    """How an unsafe variant shows."""
    if tried(package, references, sizes, ("shuffled", *ADVERSARIAL), first=True).failures:
        return SEEN_BY_RUN
    if tried(package, references, sizes, (CHECKED,) * SEEDS_CHECKED, first=True).failures:
        return SEEN_BY_CHECK
    return UNSEEN


def spread(sizes: Sequence[Sizes]) -> list[Sizes]:
    """The first, the last, and some between."""
    if len(sizes) <= SIZES_MAX:
        return list(sizes)
    step = (len(sizes) - 1) / (SIZES_MAX - 1)
    return [sizes[round(n * step)] for n in range(SIZES_MAX)]


def row(name: str, tile: TileProgram, emitted: Emitted, *, safe: bool) -> Row:
    """The row of one package."""
    manifest: Manifest = {**emitted.manifest, "program": as_data(tile)}
    references = References(manifest)
    depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
    more = [MORE_SIZES[name]] if name in MORE_SIZES else []
    sizes = spread(sizes_for(manifest, depth)) + more
    began = time.process_time()
    made = tried(
        EmulatedPackage(manifest, emitted.files), references, sizes, ("shuffled", *ADVERSARIAL)
    )
    seconds = time.process_time() - began
    found = []
    for variant, text in variants(emitted.files["kernel.cu"]).items():
        if variant != SAFE and not safe:
            package = EmulatedPackage(manifest, {**emitted.files, "kernel.cu": text})
            found.append(f"{variant}: {seen(package, references, sizes)}")
    numbers = made.failures[0][:120] if made.failures else "right"
    return (
        name, tile.target, str(len(sizes)), str(made.runs), f"{seconds:.1f}", numbers,
        f"{made.worst:.2f}", "; ".join(found),
    )  # fmt: skip


def rows(only: str, *, safe: bool, known: Container[tuple[str, str]] = ()) -> Iterator[Row]:
    """One row a package, but for those `known` by name and target."""
    limits = BuildLimits(5.0, verify_seconds=20.0, cache=".titan/schedules.sqlite")
    nvidia = generated_targets(Vendor.NVIDIA)
    for path in sorted((root("protocols") / "tiles").glob("*.yaml")):
        for target in targets_of(str(path)):
            if target not in nvidia or only not in path.stem or (path.stem, target) in known:
                continue
            try:
                made = build(load_tile(str(path), target=target), path.read_text("utf-8"), limits)
                yield row(path.stem, made.tile, emit(made.tile, made.kernel, made.program),
                          safe=safe)  # fmt: skip
            except (BuildRefused, EmissionRefused, CannotCompile) as reason:
                yield path.stem, target, "", "", "", f"no package: {str(reason)[:100]}", "", ""


def stored_rows() -> dict[tuple[str, str], Row]:
    """The rows that were stored before, by package and target."""
    path = RESULTS / "package_numbers.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return {
        (item["package"], item["target"]): tuple(item[name] for name in HEAD) for item in stored
    }


def joined(found: Sequence[Row]) -> list[Row]:
    """The rows that were stored before with those that were found, by package and target."""
    kept = stored_rows()
    for one in found:
        before = kept.get(one[:2], (NOT_RUN,))
        kept[one[0], one[1]] = one if one[-1] else (*one[:-1], before[-1])
    return [kept[key] for key in sorted(kept)]


def told(stored: Row) -> bool:
    """Whether a stored row says how the variants show."""
    return stored[-1] not in {"", NOT_RUN}


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--safe", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    known = [key for key, one in stored_rows().items() if options.missing and told(one)]
    for one in rows(options.only, safe=options.safe, known=known):
        print(" | ".join(one), flush=True)
        if options.write:  # after each row, so that a run that is ended keeps what it found
            found = joined([one])
            store("package_numbers", HEAD, found)
            write("package numbers", table_text(HEAD, found))


if __name__ == "__main__":
    main()
