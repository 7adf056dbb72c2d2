"""Examples of CuTe DSL from CUTLASS's repository on the emulated device, each checked by itself.

    python -m benchmarks.cute_examples FOLDER [--only TEXT] [--write]

FOLDER is examples/python/CuTeDSL/cute of a checkout of CUTLASS. Needs `.[cute]` and PyTorch beside
TITAN. Each example makes its inputs, launches, and compares with PyTorch; every launch is verified
before it runs. `--write` puts the table into docs/reference/emulated.md and
benchmarks/results. Without a GPU, and without changes to the examples.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.emulated_scripts import options_of_table, outcome, show_table
from benchmarks.real_code import Row

ONCE = "--warmup_iterations 0 --iterations 1"
DENSE = f"--mnkl 256,256,128,1 {ONCE}"
BLACKWELL = f"{DENSE} --mma_tiler_mn 128,128 --cluster_shape_mn 1,1"
PAIR = f"{DENSE} --mma_tiler_mn 256,128 --cluster_shape_mn 2,1 --use_2cta_instrs"
HEADS = f"--q_shape 1,256,1,64 --k_shape 1,256,1,64 {ONCE}"
# The device, the example, its arguments.
EXAMPLES = (
    ("h100", "ampere/kernel/elementwise/elementwise_add.py", f"--M 64 --N 256 {ONCE}"),
    ("h100", "ampere/kernel/dense_gemm/sgemm.py", f"--mnk 256,128,64 {ONCE}"),
    ("h100", "ampere/kernel/dense_gemm/tensorop_gemm.py", f"--mnkl 128,128,64,1 {ONCE}"),
    ("h100", "ampere/kernel/attention/flash_attention_v2.py",
     f"--batch_size 1 --seqlen_q 128 --seqlen_k 128 --num_head 1 --head_dim 64 {ONCE}"),
    ("h100", "hopper/kernel/dense_gemm/dense_gemm.py",
     f"{DENSE} --tile_shape_mn 128,128 --cluster_shape_mn 1,1"),
    ("h100", "hopper/kernel/dense_gemm/dense_gemm.py",
     f"{DENSE} --tile_shape_mn 128,128 --cluster_shape_mn 2,1"),
    ("h100", "hopper/kernel/dense_gemm/dense_gemm_persistent.py",
     f"{DENSE} --tile_shape_mn 128,128 --cluster_shape_mn 1,1"),
    ("h100", "hopper/kernel/dense_gemm/dense_gemm_fp8_2xacc.py", f"--mnkl 256,128,256,1 {ONCE}"),
    ("h100", "hopper/kernel/dense_gemm/dense_gemm_fp8_gelu_persistent.py",
     f"--mnkl 256,128,256,1 {ONCE}"),
    ("h100", "hopper/kernel/cta_norm/cta_norm.py", f"--M 8 --N 1024 {ONCE}"),
    ("h100", "hopper/kernel/attention/fmha.py", HEADS),
    ("h100", "hopper/kernel/grouped_gemm/grouped_gemm.py",
     f"--num_groups 2 --problem_sizes_mnkl (128,128,64,1),(256,128,64,1) {ONCE}"),
    *(
        ("b200", f"blackwell/tutorial/tutorial_gemm/fp16_gemm_{number}.py", "--mnk 256,256,128")
        for number in ("0", "1", "2", "3", "4", "5")
    ),
    ("b200", "blackwell/tutorial/tutorial_tma/tma_v0.py",
     "--M 128 --N 128 --num_warmup 0 --num_iters 1"),
    ("b200", "blackwell/tutorial/tutorial_tma/tma_v2.py",
     "--M 128 --N 128 --num_warmup 0 --num_iters 1"),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm.py", BLACKWELL),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm.py", PAIR),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm_persistent.py", BLACKWELL),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm_persistent.py", PAIR),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm_persistent_dynamic.py", BLACKWELL),
    ("b200", "blackwell/kernel/dense_gemm/dense_gemm_software_pipeline.py", BLACKWELL),
    ("b200", "blackwell/kernel/rmsnorm/rmsnorm.py", ""),
    ("b200", "blackwell/kernel/attention/fmha/fmha.py", HEADS),
)  # fmt: skip


def row(folder: Path, device: str, example: str, arguments: str) -> Row:
    """What one example prints of its launches and of its result."""
    path = folder / example
    found = outcome(device, Path(path.name), arguments.split(), path.parent)
    return example, device, arguments.replace(ONCE, "").strip(), *found


def main() -> None:
    """Print or write the table."""
    options = options_of_table()
    head: Row = (
        "example", "device", "arguments", "launches", "result as PyTorch's", "remark", "seconds",
    )  # fmt: skip
    rows = (
        row(options.folder, device, example, arguments)
        for device, example, arguments in EXAMPLES
        if options.only in example
    )
    show_table(rows, head, "cute_examples", "cute", options.write)


if __name__ == "__main__":
    main()
