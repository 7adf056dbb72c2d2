// The block-scaled GEMM of CUTLASS by pairs of CTAs, as a peer for benchmarks/bench_sass.py: device
// code alone.
//
//   nvcc -std=c++17 -O3 -arch=sm_100a -ptx --expt-relaxed-constexpr -I CUTLASS/include \
//       -DTITAN_KIND=8 scaled_pair.cu -o cutlass_mxf8_pair.ptx
//
// TITAN_KIND: 8 for mxf8, 4 for mxf4, 1 for nvf4. Products of 256 x 256, 128 bytes along K a stage.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"

#include "cutlass/detail/sm100_blockscaled_layout.hpp"  // behind what it needs

using cute::Shape, cute::_1, cute::_2, cute::_128, cute::_256;
#if TITAN_KIND == 8
using Factor = cutlass::mx_float8_t<cutlass::float_e4m3_t>;
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmMxf8f6f4Sm100;
using TileShape = Shape<_256, _256, _128>;
constexpr int ALIGNMENT = 16;
#else
#if TITAN_KIND == 4
using Factor = cutlass::mx_float4_t<cutlass::float_e2m1_t>;
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmMxf4Sm100;
#else
using Factor = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmNvf4Sm100;
#endif
using TileShape = Shape<_256, _256, _256>;
constexpr int ALIGNMENT = 32;
#endif
using Pair = Shape<_2, _1, _1>;
using Scaled = cutlass::arch::OpClassBlockScaledTensorOp;
using Result = cutlass::bfloat16_t;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm100, Scaled, TileShape, Pair, cutlass::epilogue::collective::EpilogueTileAuto,
    float, float, void, cutlass::layout::RowMajor, 8, Result, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm100, Scaled, Factor, cutlass::layout::RowMajor, ALIGNMENT, Factor,
    cutlass::layout::ColumnMajor, ALIGNMENT, float, TileShape, Pair,
    cutlass::gemm::collective::StageCountAutoCarveout<
        static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    Schedule>::CollectiveOp;
using Kernel =
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, void>;
template __global__ void cutlass::device_kernel<Kernel>(
    CUTLASS_GRID_CONSTANT typename Kernel::Params const);
