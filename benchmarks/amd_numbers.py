"""Every package for AMD GPUs by its numbers, from the assembly that clang makes of it.

    python -m benchmarks.amd_numbers FOLDER [--only TEXT]

FOLDER holds packages of `titan build`. Each is compiled, its assembly run on the machine of waves,
and the same source on the CPU with the primitives of `titan_emulation_hip.h`; the two share no
code. One row of Markdown a package: how many numbers of the outputs are equal, and how far the
others are apart, relative to the largest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from titan.codegen.tile.manifest import Manifest
from titan.sync.expression import evaluate, parse_expression
from titan.validate.hip.gcn import assembled, emulate_gcn
from titan.validate.hip.run import KernelFault, emulate_hip

SIZES = {"M": 70, "N": 80, "K": 80, "heads": 1, "queries": 80, "keys": 80}


def compared(files: Mapping[str, str], manifest: Manifest) -> str:
    """The cells of a row: verdict, equal numbers, the largest difference, seconds."""
    parameters = {item["name"]: SIZES[item["name"]] for item in manifest["parameters"]}
    random = np.random.default_rng(1)
    inputs = {
        tensor["name"]: random.standard_normal(
            [evaluate(parse_expression(text), parameters) for text in tensor["shape"]]
        )
        for tensor in manifest["tensors"]
        if not tensor["output"]
    }
    code = assembled(files, manifest)
    started = time.process_time()
    try:
        found = emulate_gcn(code, manifest, inputs, parameters)
    except KernelFault as fault:
        return f"not computed: {fault} | | |"
    seconds = time.process_time() - started
    other = emulate_hip(files, manifest, inputs, parameters)
    total = same = 0
    apart = 0.0
    for name, values in found.items():
        right = other[name]
        alike = (values == right) | (np.isnan(values) & np.isnan(right))
        total, same = total + alike.size, same + int(alike.sum())
        with np.errstate(invalid="ignore"):
            far = np.where(alike, 0.0, np.abs(values - right))
        scale = float(np.abs(right[np.isfinite(right)]).max(initial=1e-30))
        apart = max(apart, float(far.max(initial=0.0)) / scale)
    return f"computed | {same:,} of {total:,} | {apart:.1e} | {seconds:.1f} |"


def sources(folder: Path) -> dict[str, str]:
    """The kernel of a package and its headers, by name."""
    paths = sorted(folder.glob("*.cpp")) + sorted(folder.glob("*.h"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| package | from assembly | equal to the emulation | largest difference | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for place in sorted(given.folder.rglob("manifest.json")):
        manifest = json.loads(place.read_text(encoding="utf-8"))
        if str(manifest["target"]).startswith("gfx") and given.only in place.parent.name:
            cells = compared(sources(place.parent), manifest)
            print(f"| {place.parent.name} | {cells}", flush=True)


if __name__ == "__main__":
    main()
