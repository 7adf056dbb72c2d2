// One GEMM by the collective builders of CUTLASS 3 with a reference on the host, shaped by macros.
//
// TITAN_ELEMENT, TITAN_OUTPUT: types of A and B, and of C and D. TITAN_TILE, TITAN_CLUSTER: extents.
// TITAN_MAINLOOP, TITAN_EPILOGUE: schedules. TITAN_SCHEDULER: of tiles. TITAN_M, TITAN_N, TITAN_K.
// Operands are small integers, so that every sum is exact and the comparison is for equality.
#include <cstdio>
#include <vector>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/util/packed_stride.hpp"

using cute::Shape, cute::Stride, cute::make_shape, cute::_1, cute::_2, cute::_64, cute::_128, cute::_256;
using Element = TITAN_ELEMENT;
using Output = TITAN_OUTPUT;
using TileShape = Shape<TITAN_TILE>;
using ClusterShape = Shape<TITAN_CLUSTER>;
constexpr int OPERAND_ALIGNMENT = 16 / sizeof(Element), OUTPUT_ALIGNMENT = 16 / sizeof(Output);
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::TITAN_ARCHITECTURE, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Output,
    cutlass::layout::RowMajor, OUTPUT_ALIGNMENT, Output, cutlass::layout::RowMajor,
    OUTPUT_ALIGNMENT, cutlass::epilogue::TITAN_EPILOGUE>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::TITAN_ARCHITECTURE, cutlass::arch::OpClassTensorOp, Element,
    cutlass::layout::RowMajor, OPERAND_ALIGNMENT, Element, cutlass::layout::ColumnMajor,
    OPERAND_ALIGNMENT, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<
        static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::TITAN_MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue,
                                                    TITAN_SCHEDULER>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

template <class T> struct DeviceArray {
  T *at = nullptr;
  std::size_t count;
  explicit DeviceArray(std::size_t n) : count(n) { cudaMalloc(&at, n * sizeof(T)); }
  DeviceArray(const std::vector<T> &from) : DeviceArray(from.size()) {
    cudaMemcpy(at, from.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceArray() { cudaFree(at); }
};

template <class T> std::vector<T> drawn(std::size_t count, unsigned seed) {
  std::vector<T> made(count, T(0.0f));
  for (auto &one : made) {
    seed = seed * 1664525u + 1013904223u;
    one = T(float(int(seed >> 28) % 3 - 1));
  }
  return made;
}

int main() {
  constexpr int m = TITAN_M, n = TITAN_N, k = TITAN_K;
  const auto a = drawn<Element>(std::size_t(m) * k, 1), b = drawn<Element>(std::size_t(n) * k, 2);
  const auto c = drawn<Output>(std::size_t(m) * n, 3);
  DeviceArray<Element> left(a), right(b);
  DeviceArray<Output> added(c), made(c.size());
  cudaMemset(made.at, 0xff, made.count * sizeof(Output));
  const auto of = [](auto stride, int rows, int columns) {
    return cutlass::make_cute_packed_stride(stride, make_shape(rows, columns, 1));
  };
  cutlass::KernelHardwareInfo hardware{0, TITAN_PROCESSORS};
  typename Gemm::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1},
      {left.at, of(typename Kernel::StrideA{}, m, k), right.at, of(typename Kernel::StrideB{}, n, k)},
      {{1.0f, 1.0f}, added.at, of(typename Kernel::StrideC{}, m, n), made.at,
       of(typename Kernel::StrideD{}, m, n)}, hardware};
  Gemm gemm;
  DeviceArray<unsigned char> workspace(Gemm::get_workspace_size(arguments) + 16);
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess ||
      gemm.initialize(arguments, workspace.at) != cutlass::Status::kSuccess ||
      gemm.run() != cutlass::Status::kSuccess || cudaDeviceSynchronize() != cudaSuccess) {
    std::puts("not launched");
    return 2;
  }
  std::vector<Output> found(c.size(), Output(0.0f));
  cudaMemcpy(found.data(), made.at, made.count * sizeof(Output), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      float sum = float(c[std::size_t(row) * n + column]);
      for (int i = 0; i < k; ++i)
        sum += float(a[std::size_t(row) * k + i]) * float(b[std::size_t(column) * k + i]);
      wrong += float(found[std::size_t(row) * n + column]) != float(Output(sum));
    }
  std::printf("%s: %d of %d elements differ\n", wrong ? "failed" : "passed", wrong, m * n);
  return wrong != 0;
}
