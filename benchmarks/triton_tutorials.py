"""Triton's tutorials of Gluon on the emulated device, each test of them checked by itself.

    python -m benchmarks.triton_tutorials FOLDER [--only TEXT] [--write]

FOLDER is python/tutorials/gluon of a checkout of Triton. Needs `.[triton]` and PyTorch as well.
Each test makes its inputs, launches, and compares with PyTorch; every launch is verified before it
runs. What had other names before Triton 3.9 is renamed in a copy (`RENAMED`). `--write` puts the
table into docs/how-to/run_without_a_gpu.md and benchmarks/results.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.emulated_scripts import outcome
from benchmarks.real_code import RESULTS, Row, store, table_text, write

PAGE = RESULTS.parents[1] / "docs/how-to/run_without_a_gpu.md"
CALL = Path(__file__).with_name("call_tutorial.py")
RENAMED = (
    ("async_copy_shared_to_global", "async_store"),
    ("async_copy_global_to_shared", "async_load"),
    ("smem_b], multicast=True)", "smem_b], multicast=True, two_ctas=True)"),
    ("b_bufs.index(0)], multicast=True)", "b_bufs.index(0)], multicast=True, two_ctas=two_ctas)"),
    ("tmem_block.value,", "tmem_block,"),
    ("._reinterpret(", ".reinterpret("),
)
SMALL = "M=208 N=416 K=304 BLOCK_M=64 BLOCK_N=64 BLOCK_K=64 num_warps=4"
RING = "M=256 N=512 K=256 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 num_buffers=3 num_warps=8"
ADDED = "xnumel=100 ynumel=200 XBLOCK=32 YBLOCK=64"
ROWS = "BLOCK_X=8 BLOCK_Y=16 y_offset=48 dtype=torch.bfloat16 X_MAX=64 Y_MAX=128 fresh_knobs=None"
SCALED = "M=256 N=256 K=512"
PERSISTENT = "SchedulerImpl=PersistentTileScheduler"
# The device, the file, the test with its arguments.
TESTS = (
    ("h100", "01-intro.py", "test_memcpy XBLOCK=64 xnumel=500"),
    ("h100", "02-layouts.py",
     "test_memcpy_2d_inout xnumel=300 ynumel=40 transpose_in=True transpose_out=False"),
    ("h100", "03-async-copy.py", "test_memcpy_1d_cpasync xnumel=200 XBLOCK=128"),
    ("h100", "03-async-copy.py", f"test_elementwise_add_pipelined {ADDED} num_buffers=2"),
    ("h100", "04-tma.py", "test_memcpy_1d_tma XBLOCK=64 xnumel=500"),
    ("h100", "04-tma.py", f"test_elementwise_add_pipelined {ADDED} num_buffers=2"),
    ("h100", "05-wgmma.py",
     "test_small_mma M=64 N=32 K=32 LHS_IN_REG=False INSTR_SHAPE_N=16 num_warps=4"),
    ("h100", "05-wgmma.py",
     "test_small_mma M=64 N=256 K=128 LHS_IN_REG=True INSTR_SHAPE_N=64 num_warps=8"),
    ("h100", "05-wgmma.py", f"test_blocked_matmul {SMALL} TRANSPOSE_B=True"),
    ("h100", "05-wgmma.py", f"test_blocked_matmul_pipelined {SMALL}"),
    ("b200", "06-tcgen05.py", "test_tmem_example_kernel M=128 N=64 num_warps=4"),
    ("b200", "06-tcgen05.py",
     "test_small_mma M=128 N=128 K=128 LHS_IN_TMEM=False USE_COMMIT=True num_warps=4"),
    ("b200", "06-tcgen05.py",
     "test_small_mma M=64 N=128 K=128 LHS_IN_TMEM=True USE_COMMIT=False num_warps=4"),
    ("b200", "06-tcgen05.py", f"test_blocked_matmul {SMALL} TRANSPOSE_B=True"),
    ("b200", "06-tcgen05.py", f"test_blocked_matmul_pipelined {SMALL}"),
    ("h100", "07-persistence.py", f"test_pipelined_matmul {RING}"),
    ("h100", "07-persistence.py", f"test_persistent_matmul {RING} {PERSISTENT}"),
    ("h100", "07-persistence.py",
     f"test_persistent_matmul_pipelined {SMALL} num_buffers=3 {PERSISTENT}"),
    ("b200", "07-persistence.py",
     f"test_persistent_matmul_pipelined {SMALL} num_buffers=4 {PERSISTENT}"),
    ("h100", "08-warp-specialization.py",
     f"test_elementwise_add_warp_specialized {ADDED} num_load_buffers=2 num_store_buffers=2"
     " num_warps=4"),
    ("b200", "08-warp-specialization.py",
     "test_matmul_warp_specialized M=208 N=416 K=304 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64"
     " num_buffers=2 SUBTILE_FACTOR=4 num_warps=4 SchedulerImpl=t7.PersistentTileScheduler"),
    ("b200", "09-tma-gather-scatter.py", f"test_async_gather {ROWS}"),
    ("b200", "09-tma-gather-scatter.py", f"test_async_scatter {ROWS}"),
    ("b200", "09-tma-gather-scatter.py",
     "test_matmul_fused_gather_scatter M=256 N=256 K=256 BLOCK_M=128 BLOCK_N=128 BLOCK_K=64"
     " num_buffers=3"),
    ("b200", "10-tcgen05-copy.py",
     "test_tcgen05_copy_nvmma_shared M=128 N=128 TMEM_BLOCK_N=32 dtype=torch.float32 swizzle=128"),
    ("b200", "10-tcgen05-copy.py",
     "test_matmul_accumulate M=256 N=256 K=256 BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 num_buffers=3"
     " dtype=torch.float16"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_simple_mma_scaled {SCALED} a_format='mxfp8' b_format='mxfp8' BLOCK_N=128 BLOCK_K=128"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_contig {SCALED} a_format='mxfp4' b_format='mxfp4' BLOCK_N=128 BLOCK_K=128"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_packed_block {SCALED} a_format='mxfp8' b_format='mxfp4' BLOCK_N=128"
     " BLOCK_K=128"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_tcgen05_copy {SCALED} a_format='nvfp4' b_format='nvfp4' BLOCK_N=128"
     " BLOCK_K=128"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_pipelined {SCALED} a_format='mxfp8' b_format='mxfp8'"
     " impl_kernel=mma_scaled_pipelined_kernel"),
    ("b200", "11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_pipelined {SCALED} a_format='nvfp4' b_format='nvfp4'"
     " impl_kernel=mma_scaled_warp_specialized_kernel"),
    ("b200", "12-cluster-launch-control.py", "test_op M=512 N=512 K=256 use_clc=True"),
    ("b200", "12-cluster-launch-control.py", "test_op M=512 N=512 K=256 use_clc=False"),
    ("b200", "13-conv-im2col.py", "test_tma_im2col_simple"),
    ("b200", "13-conv-im2col.py", "test_tma_im2col_padded"),
    ("b200", "13-conv-im2col.py", "test_tma_im2col_offset"),
    ("h100", "13-conv-im2col.py", "test_tma_im2col_multi_batch"),
    ("h100", "13-conv-im2col.py", "test_tma_im2col_multi_batch_padded"),
    ("h100", "13-conv-im2col.py",
     "test_conv2d_tma_im2col N=1 H=8 W=8 Ci=64 Co=64 R=3 S=3 stride=1 padding=1"),
    ("b200", "13-conv-im2col.py",
     "test_conv2d_tma_im2col N=1 H=8 W=8 Ci=64 Co=64 R=3 S=3 stride=1 padding=1"),
    ("b200", "14-multicta.py", "test_multicta_softmax_f32 M=4 N=65536"),
    ("b200", "14-multicta.py", "test_two_cta_tcgen05"),
    ("b200", "14-multicta.py", "test_tma_multicast_copy"),
    ("b200", "14-multicta.py", "test_tma_tcgen05"),
    ("b200", "14-multicta.py", "test_matmul_multicta"),
)  # fmt: skip


def prepared(folder: Path, copy: Path) -> None:
    """The tutorials, under the names of Triton 3.9."""
    for source in sorted(folder.glob("[0-9]*.py")):
        text = source.read_text(encoding="utf-8")
        for before, after in RENAMED:
            text = text.replace(before, after)
        (copy / source.name).write_text(text, encoding="utf-8")


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    head: Row = ("tutorial", "device", "test", "launches", "passed", "remark", "seconds")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as copy:
        prepared(options.folder, Path(copy))
        for device, file, test in TESTS:
            if options.only in f"{file} {test}":
                found = outcome(device, CALL, [f"{copy}/{file}", *test.split()], Path(copy))
                rows.append((file, device, test, *found))
                print(" | ".join(rows[-1]), flush=True)
    if options.write:
        store("triton_tutorials", head, rows)
        write("tutorials", table_text(head, rows), PAGE)


if __name__ == "__main__":
    main()
