// A grouped GEMM by CUTLASS 3 with a reference on the host: each CTA replaces the addresses, extents
// and strides of its tensor maps (`tensormap.replace`) when it comes to another problem.
#include <cstdio>
#include <vector>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using cute::Shape, cute::Stride, cute::make_shape, cute::_1, cute::_2, cute::_64, cute::_128, cute::_256;
using Element = cutlass::half_t;
using TileShape = Shape<TITAN_TILE>;
using ClusterShape = Shape<TITAN_CLUSTER>;
using Problem = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Element,
    cutlass::layout::RowMajor *, 8, Element, cutlass::layout::RowMajor *, 8,
    cutlass::epilogue::TITAN_EPILOGUE>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor *, 8,
    Element, cutlass::layout::ColumnMajor *, 8, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<
        static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::TITAN_MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

template <class T> T *copied(const std::vector<T> &from) {
  T *at = nullptr;
  cudaMalloc(&at, from.size() * sizeof(T));
  cudaMemcpy(at, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
  return at;
}

std::vector<Element> drawn(std::size_t count, unsigned seed) {
  std::vector<Element> made(count, Element(0.0f));
  for (auto &one : made) {
    seed = seed * 1664525u + 1013904223u;
    one = Element(float(int(seed >> 28) % 3 - 1));
  }
  return made;
}

int main() {
  const std::vector<typename Problem::UnderlyingProblemShape> problems{
      {128, 64, 128}, {64, 128, 64}, {192, 136, 72}};
  std::vector<std::vector<Element>> a, b;
  std::vector<const Element *> left, right, added;
  std::vector<Element *> made;
  std::vector<typename Kernel::InternalStrideA> strides_a;
  std::vector<typename Kernel::InternalStrideB> strides_b;
  std::vector<typename Kernel::InternalStrideC> strides_c;
  std::vector<typename Kernel::InternalStrideD> strides_d;
  for (const auto &problem : problems) {
    const auto [m, n, k] = problem;
    a.push_back(drawn(std::size_t(m) * k, 2 * unsigned(a.size()) + 1));
    b.push_back(drawn(std::size_t(n) * k, 2 * unsigned(b.size()) + 2));
    left.push_back(copied(a.back()));
    right.push_back(copied(b.back()));
    made.push_back(copied(std::vector<Element>(std::size_t(m) * n, Element(77.0f))));
    added.push_back(made.back());
    strides_a.push_back(
        cutlass::make_cute_packed_stride(typename Kernel::InternalStrideA{}, {m, k, 1}));
    strides_b.push_back(
        cutlass::make_cute_packed_stride(typename Kernel::InternalStrideB{}, {n, k, 1}));
    strides_c.push_back(
        cutlass::make_cute_packed_stride(typename Kernel::InternalStrideC{}, {m, n, 1}));
    strides_d.push_back(
        cutlass::make_cute_packed_stride(typename Kernel::InternalStrideD{}, {m, n, 1}));
  }
  cutlass::KernelHardwareInfo hardware{0, TITAN_PROCESSORS};
  typename Gemm::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGrouped,
      {int(problems.size()), copied(problems), problems.data()},
      {copied(left), copied(strides_a), copied(right), copied(strides_b)},
      {{}, copied(added), copied(strides_c), copied(made), copied(strides_d)}, hardware};
  arguments.epilogue.thread.alpha = 1.0f;
  arguments.epilogue.thread.beta = 0.0f;
  Gemm gemm;
  unsigned char *workspace = nullptr;
  cudaMalloc(&workspace, Gemm::get_workspace_size(arguments) + 16);
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess ||
      gemm.initialize(arguments, workspace) != cutlass::Status::kSuccess ||
      gemm.run() != cutlass::Status::kSuccess || cudaDeviceSynchronize() != cudaSuccess) {
    std::puts("not launched");
    return 2;
  }
  int wrong = 0, count = 0;
  for (std::size_t group = 0; group < problems.size(); ++group) {
    const auto [m, n, k] = problems[group];
    std::vector<Element> found(std::size_t(m) * n, Element(0.0f));
    cudaMemcpy(found.data(), made[group], found.size() * sizeof(Element), cudaMemcpyDeviceToHost);
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column, ++count) {
        float sum = 0;
        for (int i = 0; i < k; ++i)
          sum += float(a[group][std::size_t(row) * k + i]) *
                 float(b[group][std::size_t(column) * k + i]);
        wrong += float(found[std::size_t(row) * n + column]) != float(Element(sum));
      }
  }
  std::printf("%s: %d of %d elements differ\n", wrong ? "failed" : "passed", wrong, count);
  return wrong != 0;
}
