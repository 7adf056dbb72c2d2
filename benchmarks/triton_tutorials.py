"""Triton's tutorials on the emulated device, each checked by itself.

    python -m benchmarks.triton_tutorials FOLDER [--only TEXT] [--write]

FOLDER is python/tutorials of a checkout of Triton. Needs `.[triton]`, PyTorch and tabulate as well.
Each test makes its inputs, launches, and compares with PyTorch; every launch is verified before it
runs. In a copy, what had other names before Triton 3.9 is renamed (`RENAMED`), and sizes that a
tutorial has in its text, and what it tunes over, are less (`SMALLER`). `--write` puts the table in
docs/reference/emulated.md and benchmarks/results.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.emulated_scripts import options_of_table, outcome, show_table
from benchmarks.real_code import Row

CALL = Path(__file__).with_name("call_tutorial.py")
RENAMED = (
    ("async_copy_shared_to_global", "async_store"),
    ("async_copy_global_to_shared", "async_load"),
    ("smem_b], multicast=True)", "smem_b], multicast=True, two_ctas=True)"),
    ("b_bufs.index(0)], multicast=True)", "b_bufs.index(0)], multicast=True, two_ctas=two_ctas)"),
    ("tmem_block.value,", "tmem_block,"),
    ("._reinterpret(", ".reinterpret("),
)
SMALLER = (
    ("98432", "9843"), ("torch.randn(1823, 781", "torch.randn(182, 781"),
    ("test_layer_norm(1151, 8192", "test_layer_norm(64, 512"),
    ("[1024, 512, 256, 128]", "[256, 128]"), ("for BN in [128, 256]", "for BN in [128]"),
    ("for BK in [64, 128]", "for BK in [64]"), ("for s in ([2, 3, 4])", "for s in ([3])"),
    ("for w in [4, 8]", "for w in [4]"),
)  # fmt: skip
SMALL = "M=208 N=416 K=304 BLOCK_M=64 BLOCK_N=64 BLOCK_K=64 num_warps=4"
RING = "M=256 N=512 K=256 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 num_buffers=3 num_warps=8"
ADDED = "xnumel=100 ynumel=200 XBLOCK=32 YBLOCK=64"
ROWS = "BLOCK_X=8 BLOCK_Y=16 y_offset=48 dtype=torch.bfloat16 X_MAX=64 Y_MAX=128 fresh_knobs=None"
SCALED = "M=256 N=256 K=512"
PERSISTENT = "SchedulerImpl=PersistentTileScheduler"
HEADS = "Z=1 H=1 N_CTX=256 HEAD_DIM=64 causal=True provider='triton-fp16'"
# The device, the file, the test with its arguments.
TESTS = (
    ("h100", "01-vector-add.py", ""),
    ("h100", "02-fused-softmax.py", ""),
    ("h100", "04-low-memory-dropout.py", ""),
    ("h100", "05-layer-norm.py", ""),
    ("h100", "06-fused-attention.py", f"test_op {HEADS} warp_specialize=False mode='bwd'"),
    ("b200", "06-fused-attention.py", f"test_op {HEADS} warp_specialize=True mode='bwd'"),
    ("h100", "08-grouped-gemm.py", ""),
    ("h100", "09-persistent-matmul.py", "validate M=256 N=256 K=256 dtype=torch.float16"),
    ("b200", "09-persistent-matmul.py", "validate M=256 N=256 K=256 dtype=torch.float16"),
    ("b200", "09-persistent-matmul.py", "validate M=256 N=256 K=256 dtype=torch.float8_e4m3fn"),
    ("b200", "10-block-scaled-matmul.py",
     "validate_block_scaled M=256 N=256 K=512 block_scale_type='mxfp8'"),
    ("b200", "10-block-scaled-matmul.py",
     "validate_block_scaled M=256 N=256 K=512 block_scale_type='nvfp4'"),
    ("h100", "11-programmatic-dependent-launch.py", "validate n_elements=4000"),
    *(
        (device, file, test)
        for device in ("mi300x", "mi355x")
        for file, test in (
            ("01-vector-add.py", ""), ("02-fused-softmax.py", ""), ("04-low-memory-dropout.py", ""),
            ("05-layer-norm.py", ""),
            ("06-fused-attention.py",
             f"test_op {HEADS} warp_specialize=False mode='bwd'".replace("256", "128")),
            ("08-grouped-gemm.py", ""),
            ("09-persistent-matmul.py", "validate M=256 N=256 K=64 dtype=torch.float16"),
        )
    ),
    ("h100", "gluon/01-intro.py", "test_memcpy XBLOCK=64 xnumel=500"),
    ("h100", "gluon/02-layouts.py",
     "test_memcpy_2d_inout xnumel=300 ynumel=40 transpose_in=True transpose_out=False"),
    ("h100", "gluon/03-async-copy.py", "test_memcpy_1d_cpasync xnumel=200 XBLOCK=128"),
    ("h100", "gluon/03-async-copy.py", f"test_elementwise_add_pipelined {ADDED} num_buffers=2"),
    ("h100", "gluon/04-tma.py", "test_memcpy_1d_tma XBLOCK=64 xnumel=500"),
    ("h100", "gluon/04-tma.py", f"test_elementwise_add_pipelined {ADDED} num_buffers=2"),
    ("h100", "gluon/05-wgmma.py",
     "test_small_mma M=64 N=32 K=32 LHS_IN_REG=False INSTR_SHAPE_N=16 num_warps=4"),
    ("h100", "gluon/05-wgmma.py",
     "test_small_mma M=64 N=256 K=128 LHS_IN_REG=True INSTR_SHAPE_N=64 num_warps=8"),
    ("h100", "gluon/05-wgmma.py", f"test_blocked_matmul {SMALL} TRANSPOSE_B=True"),
    ("h100", "gluon/05-wgmma.py", f"test_blocked_matmul_pipelined {SMALL}"),
    ("b200", "gluon/06-tcgen05.py", "test_tmem_example_kernel M=128 N=64 num_warps=4"),
    ("b200", "gluon/06-tcgen05.py",
     "test_small_mma M=128 N=128 K=128 LHS_IN_TMEM=False USE_COMMIT=True num_warps=4"),
    ("b200", "gluon/06-tcgen05.py",
     "test_small_mma M=64 N=128 K=128 LHS_IN_TMEM=True USE_COMMIT=False num_warps=4"),
    ("b200", "gluon/06-tcgen05.py", f"test_blocked_matmul {SMALL} TRANSPOSE_B=True"),
    ("b200", "gluon/06-tcgen05.py", f"test_blocked_matmul_pipelined {SMALL}"),
    ("h100", "gluon/07-persistence.py", f"test_pipelined_matmul {RING}"),
    ("h100", "gluon/07-persistence.py", f"test_persistent_matmul {RING} {PERSISTENT}"),
    ("h100", "gluon/07-persistence.py",
     f"test_persistent_matmul_pipelined {SMALL} num_buffers=3 {PERSISTENT}"),
    ("b200", "gluon/07-persistence.py",
     f"test_persistent_matmul_pipelined {SMALL} num_buffers=4 {PERSISTENT}"),
    ("h100", "gluon/08-warp-specialization.py",
     f"test_elementwise_add_warp_specialized {ADDED} num_load_buffers=2 num_store_buffers=2"
     " num_warps=4"),
    ("b200", "gluon/08-warp-specialization.py",
     "test_matmul_warp_specialized M=208 N=416 K=304 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64"
     " num_buffers=2 SUBTILE_FACTOR=4 num_warps=4 SchedulerImpl=t7.PersistentTileScheduler"),
    ("b200", "gluon/09-tma-gather-scatter.py", f"test_async_gather {ROWS}"),
    ("b200", "gluon/09-tma-gather-scatter.py", f"test_async_scatter {ROWS}"),
    ("b200", "gluon/09-tma-gather-scatter.py",
     "test_matmul_fused_gather_scatter M=256 N=256 K=256 BLOCK_M=128 BLOCK_N=128 BLOCK_K=64"
     " num_buffers=3"),
    ("b200", "gluon/10-tcgen05-copy.py",
     "test_tcgen05_copy_nvmma_shared M=128 N=128 TMEM_BLOCK_N=32 dtype=torch.float32 swizzle=128"),
    ("b200", "gluon/10-tcgen05-copy.py",
     "test_matmul_accumulate M=256 N=256 K=256 BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 num_buffers=3"
     " dtype=torch.float16"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_simple_mma_scaled {SCALED} a_format='mxfp8' b_format='mxfp8' BLOCK_N=128 BLOCK_K=128"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_contig {SCALED} a_format='mxfp4' b_format='mxfp4' BLOCK_N=128 BLOCK_K=128"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_packed_block {SCALED} a_format='mxfp8' b_format='mxfp4' BLOCK_N=128"
     " BLOCK_K=128"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_tcgen05_copy {SCALED} a_format='nvfp4' b_format='nvfp4' BLOCK_N=128"
     " BLOCK_K=128"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_pipelined {SCALED} a_format='mxfp8' b_format='mxfp8'"
     " impl_kernel=mma_scaled_pipelined_kernel"),
    ("b200", "gluon/11-tcgen05-mma-scaled.py",
     f"test_mma_scaled_pipelined {SCALED} a_format='nvfp4' b_format='nvfp4'"
     " impl_kernel=mma_scaled_warp_specialized_kernel"),
    ("b200", "gluon/12-cluster-launch-control.py", "test_op M=512 N=512 K=256 use_clc=True"),
    ("b200", "gluon/12-cluster-launch-control.py", "test_op M=512 N=512 K=256 use_clc=False"),
    ("b200", "gluon/13-conv-im2col.py", "test_tma_im2col_simple"),
    ("b200", "gluon/13-conv-im2col.py", "test_tma_im2col_padded"),
    ("b200", "gluon/13-conv-im2col.py", "test_tma_im2col_offset"),
    ("h100", "gluon/13-conv-im2col.py", "test_tma_im2col_multi_batch"),
    ("h100", "gluon/13-conv-im2col.py", "test_tma_im2col_multi_batch_padded"),
    ("h100", "gluon/13-conv-im2col.py",
     "test_conv2d_tma_im2col N=1 H=8 W=8 Ci=64 Co=64 R=3 S=3 stride=1 padding=1"),
    ("b200", "gluon/13-conv-im2col.py",
     "test_conv2d_tma_im2col N=1 H=8 W=8 Ci=64 Co=64 R=3 S=3 stride=1 padding=1"),
    ("b200", "gluon/14-multicta.py", "test_multicta_softmax_f32 M=4 N=65536"),
    ("b200", "gluon/14-multicta.py", "test_two_cta_tcgen05"),
    ("b200", "gluon/14-multicta.py", "test_tma_multicast_copy"),
    ("b200", "gluon/14-multicta.py", "test_tma_tcgen05"),
    ("b200", "gluon/14-multicta.py", "test_matmul_multicta"),
)  # fmt: skip


def prepared(folder: Path, copy: Path) -> None:
    """The tutorials, under the names of Triton 3.9 and smaller."""
    (copy / "gluon").mkdir()
    for source in sorted(folder.glob("**/[0-9]*.py")):
        text = source.read_text(encoding="utf-8")
        place = source.relative_to(folder)
        for before, after in RENAMED if place.parts[0] == "gluon" else SMALLER:
            text = text.replace(before, after)
        if place.parent.name in ("", "gluon"):
            (copy / place).write_text(text, encoding="utf-8")


def main() -> None:
    """Print or write the table."""
    options = options_of_table()
    head: Row = ("tutorial", "device", "test", "launches", "passed", "remark", "seconds")
    with tempfile.TemporaryDirectory() as copy:
        prepared(options.folder, Path(copy))
        rows = (
            (
                file,
                device,
                test,
                *outcome(device, CALL, [f"{copy}/{file}", *test.split()], Path(copy)),
            )
            for device, file, test in TESTS
            if options.only in f"{file} {test}"
        )
        show_table(rows, head, "triton_tutorials", "tutorials", options.write)


if __name__ == "__main__":
    main()
