"""Verdicts on AMD assembly, and what becomes of every wait and barrier in it.

    python -m benchmarks.amd_code FOLDER [--mutants] [--only TEXT]

FOLDER holds assembly with its launch beside it (`gemm.s`, `gemm.launch.yaml`), and packages of
`titan build` for AMD GPUs, which clang-22 compiles, with the launch of their manifest. One row
of Markdown a kernel. With `--mutants` each `s_waitcnt` and `s_barrier` is deleted or weakened, and
the first work-group of the launch is judged; what survives is listed with its line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from titan.device.expressions import evaluate
from titan.foundation.scratch import scratch
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.gcn.verify import verify_assembly
from titan.frontends.ptx.launch import LaunchDescription, read_launch, read_launch_text
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.assembly import parse_assembly
from titan.validate.compare.gcn_compile import CLANG, FLAGS
from titan.verify.model import Finding

SIZE, HEADS = 384, 2  # of packages


def kernels(folder: Path, only: str) -> Iterator[tuple[str, str, LaunchDescription]]:
    """Name, assembly and launch of each kernel in the folder."""
    for place in sorted(folder.rglob("*.s")):
        launch = place.with_suffix(".launch.yaml")
        if only in place.stem and launch.is_file():
            yield (
                place.stem,
                place.read_text(encoding="utf-8"),
                _described(*read_launch(str(launch))),
            )
    for place in sorted(folder.rglob("manifest.json")):
        manifest = json.loads(place.read_text(encoding="utf-8"))
        if only in place.parent.name and str(manifest["target"]).startswith("gfx"):
            described = _described(*read_launch_text(_launch(manifest), str(place)))
            yield place.parent.name, _compiled(place.parent, manifest), described


def _described(found: LaunchDescription | None, errors: list[Any]) -> LaunchDescription:
    if found is None:
        raise SystemExit(f"a launch is not understood: {errors[0].headline}")
    return found


def _launch(manifest: Any) -> str:
    names = [item["name"] for item in manifest["parameters"]]
    sizes = {name: HEADS if name == "heads" else SIZE for name in names}
    values = [
        str(sizes[item["name"]]) if item["kind"] == "size" else "pointer"
        for item in manifest["arguments"]
        if item["kind"] in ("size", "pointer")
    ]
    launch = manifest["launch"]
    return json.dumps(
        {
            "grid": evaluate(launch["grid"], sizes),
            "block": launch["block"],
            "dynamic_shared": launch["dynamic_shared_bytes"],
            "parameters": [int(value) if value.isdigit() else value for value in values],
        }
    )


def _compiled(folder: Path, manifest: Any) -> str:
    with scratch("titan-amd-") as made:
        place = Path(made) / "kernel.s"
        target = f"--offload-arch={manifest['target']}"
        flags = [flag for flag in FLAGS if not flag.startswith("-W")]
        source = str(folder / manifest["source"])
        command = [CLANG, "-x", "hip", target, *flags, "-S", source, "-o", str(place)]
        subprocess.run(command, check=True)
        return place.read_text(encoding="utf-8")


def judged(text: str, launch: LaunchDescription, ctas: tuple[int, ...] | None = None) -> Finding:
    """The verdict on the one kernel of a text."""
    started, options = time.process_time(), CodeOptions(ctas=ctas)
    (found,) = verify_assembly(Source("k.s", text), launch, options, [], started)
    return found


def mutants(text: str, launch: LaunchDescription) -> tuple[int, list[str]]:
    """How many mutants there are, and those that are not refuted."""
    source = Source("k.s", text)
    assembly, _ = parse_assembly(source)
    assert assembly is not None
    total, left = 0, []
    for mutant in assembly_mutants(assembly, source, assembly.kernels[0]):
        total += 1
        if judged(mutant.text, launch, (0,)).verdict is not Verdict.REFUTED:
            left.append(f"line {mutant.line}: {mutant.name}, {mutant.kind}")
    return total, left


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| kernel | verdict | seconds | run | mutants refuted | remark |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, text, launch in kernels(given.folder, given.only):
        found = judged(text, launch)
        killed, left = "", list[str]()
        if given.mutants:
            total, left = mutants(text, launch)
            killed = f"{total - len(left)} of {total}"
        remark = "; ".join([item.headline for item in found.diagnostics[:1]] + left)
        run = found.engines[0].remark if found.engines else ""
        seconds = found.engines[0].seconds if found.engines else 0.0
        verdict = found.verdict.name.lower()
        print(f"| {name} | {verdict} | {seconds:.2f} | {run} | {killed} | {remark} |", flush=True)


if __name__ == "__main__":
    main()
