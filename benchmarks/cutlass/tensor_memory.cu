// The GEMM of CUTLASS in tensor memory, as a peer for benchmarks/bench_sass.py: device code alone.
//
//   nvcc -std=c++17 -O3 -arch=sm_100a -ptx --expt-relaxed-constexpr -I CUTLASS/include \
//       -DTITAN_CTAS=2 tensor_memory.cu -o cutlass_bf16_pair.ptx
//
// TITAN_CTAS: 1 for products of 128 x 256 by one CTA, 2 for 256 x 256 by a pair; TITAN_TYPE: the
// operands' type, bf16 where it is not given; TITAN_ALONG_N: the rows of B in memory run along N, not
// along K. 128 bytes along K a stage.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"

#ifndef TITAN_TYPE
#define TITAN_TYPE cutlass::bfloat16_t
#endif

#ifdef TITAN_ALONG_N
using LayoutB = cutlass::layout::RowMajor;
#else
using LayoutB = cutlass::layout::ColumnMajor;
#endif

using cute::Shape, cute::_1, cute::Int;
using Factor = TITAN_TYPE;
constexpr int ALONG_K = 128 / sizeof(Factor), ALIGNMENT = 16 / sizeof(Factor);
using TileShape = Shape<Int<128 * TITAN_CTAS>, Int<256>, Int<ALONG_K>>;
using Cluster = Shape<Int<TITAN_CTAS>, _1, _1>;
#if TITAN_CTAS == 2
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmSm100;
#else
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized1SmSm100;
#endif
using Operations = cutlass::arch::OpClassTensorOp;
using Result = cutlass::bfloat16_t;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm100, Operations, TileShape, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor,
    8, Result, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm100, Operations, Factor, cutlass::layout::RowMajor, ALIGNMENT, Factor, LayoutB,
    ALIGNMENT, float, TileShape, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<
        static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    Schedule>::CollectiveOp;
using Kernel =
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, void>;
template __global__ void cutlass::device_kernel<Kernel>(
    CUTLASS_GRID_CONSTANT typename Kernel::Params const);
