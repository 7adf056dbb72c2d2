"""The verdicts on generated kernels of FlashInfer, by family, as a table.

    python -m benchmarks.flashinfer_kernels SOURCES PTX [--only TEXT] [--write]

SOURCES is the folder `flashinfer/data` of the wheel `flashinfer-python`; PTX keeps what has been
compiled (nvcc is that of PATH or of its wheel). Each kernel is launched with two clusters, of the
sizes below, and judged with the policies as they are; one that is refuted again with those of
`WIDER`, which are then named where the verdict changes. What needs other data is left out of the
families. `--write` puts the table into docs/reference/real_code.md and benchmarks/results; with
`--only`, the rows of families that it names in full.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.binding_launches import Given, NoLaunchError, launch_text
from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.foundation.source.loading import load_file
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.verify_code import TEXT_BYTES_MAX, CodeOptions, verify_code

FAMILIES = {  # folders of csrc
    "cake_batch_deepgemm_fp8": "grouped FP8 GEMM with masks",
    "cake_grouped_fp8_gemm": "grouped FP8 GEMM",
    "experimental/deepgemm_fp4_gemm": "FP4 GEMM",
    "experimental/deepgemm_fp8_gemm": "FP8 GEMM",
    "experimental/deepgemm_mixed_gemm": "FP8 by FP4 GEMM",
    "experimental/deepgemm_kgroup_gemm": "GEMM grouped along K",
    "cake_nvfp4_svdquant_gemm": "NVFP4 GEMM with a correction of low rank",
    "blackwell_bf16_fp4": "BF16 by FP4 GEMM",
    "blackwell_msa": "sparse attention",
    "cake_kimi_k3_mla": "latent attention",
    "gdn/gdn_cp": "gated delta rule",
}
SIZES: dict[str, int | float | str] = {
    "M": 256, "N": 512, "K": 512, "G": 2, "k_tiles": 4, "K_tiles": 4, "grid_m": 2, "grid_n": 4,
    "num_groups": 2, "shape_m": 256, "shape_n": 512, "batch_size": 2, "num_n_tiles": 4,
    "compute_m_cap": 256, "scheduled_m_blocks": 3, "scheduled_pair_blocks": 2, "sf_cols": 4,
    "rank": 64, "rank_tiles": 1, "rank_chunks": 1, "total_q": 256, "num_q_heads": 8,
    "num_kv_heads": 2, "num_heads": 16, "topk": 4, "max_pages": 8, "num_split": 2,
    "raster_along_m": 0,
}  # fmt: skip
WIDER = {
    "pairs that release at CTA scope": {"cta_release": "all"},
    "stores in flight at the end": {"exit_in_flight": "allow"},
    "loads without a wait": {"load_ready": "use"},
    "copies without a fence": {"copy_fence": "assumed"},
    "commits that publish for their issuer": {"engine_release": "issuer"},
}
ALL_WIDER = {name: word for words in WIDER.values() for name, word in words.items()}
STEPS_MAX = 2_000_000


def data(name: str) -> list[int] | None:
    """What integers in memory are, by the name of the pointer."""
    word = name.lower()
    if any(part in word for part in ("cu_seq", "cum_seq", "indptr")):
        return [64 * n for n in range(65)]
    if "masked" in word:
        return [40, 20] + 62 * [0]
    if "m_ind" in word:
        return 256 * [0] + 256 * [1]
    if "layout" in word:
        return 64 * [256]
    if "len" in word:
        return 64 * [128]
    if any(part in word for part in ("table", "ind", "idx")):
        return list(range(1024))
    return None


def default(name: str, kind: str) -> int | float | None:
    """A scalar by its name and C type."""
    if kind in ("float", "double"):
        return 0.125
    if name.startswith(("has_", "use_", "return_", "enable_", "write_", "store_")):
        return 1
    if kind not in ("int", "unsigned", "int32_t", "uint32_t", "int64_t", "uint64_t"):
        return None
    return 1024 if "stride" in name else 4


def compiled(source: Path, data_folder: Path, kept: Path) -> Path | None:
    """The PTX of a kernel; None where nvcc does not take the file alone."""
    target = kept / f"{source.stem}.ptx"
    if not target.exists():
        name = str(source)
        word = next(
            (a for a in ("90", "103", "120") if f"sm{a}" in name or f"sm_{a}" in name), "100"
        )
        folders = ("include", "csrc", "cutlass/include", "cutlass/tools/util/include")
        flags = [f"-I{data_folder / folder}" for folder in folders]
        command = ["nvcc", f"-arch=sm_{word}a", "-std=c++17", "-ptx", "-lineinfo", "-w"]
        command += [*flags, str(source), "-o", str(target)]
        made = subprocess.run(command, check=False, capture_output=True)
        if made.returncode:
            target.unlink(missing_ok=True)
            return None
    return target


def verdict(path: Path, launch: str, policies: CodePolicies) -> tuple[Verdict, str, float]:
    """The verdict, the first code of a finding, and seconds of the processor."""
    source, _ = load_file(path, TEXT_BYTES_MAX)
    described, errors = read_launch_text(launch, "launch.yaml")
    assert source is not None and described is not None, errors
    options = CodeOptions(policies=policies, save_traces=None, steps_max=STEPS_MAX)
    started = time.process_time()
    (finding,) = verify_code(source, described, options, [], started)
    codes = [item.code for item in finding.diagnostics]
    return finding.verdict, codes[0] if codes else "", time.process_time() - started


def judged(path: Path, launch: str) -> tuple[str, float]:
    """What becomes of a kernel, in words, and seconds of the first verdict."""
    found, code, seconds = verdict(path, launch, CodePolicies())
    if found is not Verdict.REFUTED:
        return found.value, seconds
    for name, words in [*WIDER.items(), ("several of these", ALL_WIDER)]:
        other, _, _ = verdict(path, launch, replace(CodePolicies(), **words))
        if other is Verdict.VERIFIED:
            return f"verified but for {name}", seconds
    return f"refuted {code}", seconds


def rows(sources: Path, kept: Path, only: str) -> Iterator[Row]:
    """Family, kernels, what becomes of them, and the median of the seconds."""
    given = Given(SIZES, data, {}, default)
    for folder, title in FAMILIES.items():
        fates: Counter[str] = Counter()
        times: list[float] = []
        for binding in sorted((sources / "csrc" / folder).rglob("*_binding.cu")):
            if only not in str(binding):
                continue
            kernel = binding.with_name(binding.name.replace("_binding.cu", "_kernel.cu"))
            path = compiled(kernel, sources, kept) if kernel.exists() else None
            try:
                launch = launch_text(binding.read_text(encoding="utf-8"), given)
            except NoLaunchError:
                launch = ""
            if path is None or not launch:
                fates["not launched here"] += 1
                continue
            fate, seconds = judged(path, launch)
            print(f"{binding.stem}: {fate}, {seconds:.1f} s", flush=True)
            fates[fate] += 1
            times.append(seconds)
        if times:
            parts = [f"{count} {fate}" for fate, count in fates.most_common()]
            number = str(len(times))
            yield (title, number, "; ".join(parts), f"{median(times):.1f}", f"{max(times):.1f}")


def _among_stored(head: Row, made: list[Row]) -> list[Row]:
    """The rows of the last run, those of `made` in the places of their families."""
    stored = json.loads((RESULTS / "flashinfer_kernels.json").read_text(encoding="utf-8"))["rows"]
    new = {row[0]: row for row in made}
    return [new.get(row[head[0]], tuple(row[name] for name in head)) for row in stored]


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=Path)
    parser.add_argument("ptx", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.ptx.mkdir(parents=True, exist_ok=True)
    head: Row = ("kernels", "number", "verdicts", "seconds, median", "largest")
    made = list(rows(options.sources, options.ptx, options.only))
    print(table_text(head, made))
    if options.write:
        if options.only:
            made = _among_stored(head, made)
        store("flashinfer_kernels", head, made)
        write("flashinfer", table_text(head, made))


if __name__ == "__main__":
    main()
