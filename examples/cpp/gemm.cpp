// C = A B^T in bf16 by the package that suits the shape, compared with a plain loop.
//   gemm [M N K]
#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "packages_cuda.h"

static void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: error %d of the driver\n", what, static_cast<int>(result));
  std::exit(1);
}

static std::vector<std::uint16_t> numbers(std::int64_t count, unsigned seed) {
  std::vector<std::uint16_t> made(static_cast<std::size_t>(count));
  for (std::uint16_t& one : made) {  // small multiples of 1/8: exact in bf16
    seed = seed * 1664525u + 1013904223u;
    float const value = static_cast<float>(static_cast<int>(seed >> 28) - 8) / 8;
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    one = static_cast<std::uint16_t>(bits >> 16);
  }
  return made;
}

static float number(std::uint16_t half) {
  std::uint32_t const bits = static_cast<std::uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static CUdeviceptr on_device(const std::vector<std::uint16_t>& values) {
  CUdeviceptr place = 0;
  check(cuMemAlloc(&place, values.size() * 2), "memory");
  check(cuMemcpyHtoD(place, values.data(), values.size() * 2), "copy");
  return place;
}

int main(int count, char** words) {
  std::int64_t const given = count == 4;
  std::int64_t const sizes[] = {given ? std::atoll(words[1]) : 200, given ? std::atoll(words[2]) : 72,
                                given ? std::atoll(words[3]) : 136};  // M, N, K
  CUdevice device;
  CUcontext context;
  int processors = 0;
  check(cuInit(0), "driver");
  check(cuDeviceGet(&device, 0), "device");
  check(cuDevicePrimaryCtxRetain(&context, device), "context");
  check(cuCtxSetCurrent(context), "context");
  check(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "device");

  titan::packages::Row const* row = titan::packages::pick("gemm", TARGET, sizes, nullptr, processors);
  if (!row) {
    titan::packages::Row const* named = titan::packages::find("gemm", TARGET);
    std::fprintf(stderr, "no package: %s\n", named ? named->package.refusal(sizes, nullptr) : "none is built");
    return 1;
  }
  std::ifstream file(std::string(KERNELS) + "/" + row->folder + ".fatbin", std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CUmodule module;
  CUfunction kernel;
  check(cuModuleLoadData(&module, image.data()), "module");
  check(row->package.find(module, &kernel), "kernel");

  std::vector<std::uint16_t> const a = numbers(sizes[0] * sizes[2], 1), b = numbers(sizes[1] * sizes[2], 2);
  std::vector<std::uint16_t> c(static_cast<std::size_t>(sizes[0] * sizes[1]));
  titan::host::Array const arrays[] = {{on_device(a), {}}, {on_device(b), {}}, {on_device(c), {}}};
  if (const char* fault = row->package.refusal(sizes, arrays)) {
    std::fprintf(stderr, "%s\n", fault);
    return 1;
  }
  check(row->package.launch(kernel, sizes, arrays, processors, nullptr), "launch");
  check(cuCtxSynchronize(), "kernel");
  check(cuMemcpyDtoH(c.data(), arrays[2].address, c.size() * 2), "copy");

  float worst = 0;
  for (std::int64_t m = 0; m < sizes[0]; ++m)
    for (std::int64_t n = 0; n < sizes[1]; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < sizes[2]; ++k)
        sum += number(a[static_cast<std::size_t>(m * sizes[2] + k)]) * number(b[static_cast<std::size_t>(n * sizes[2] + k)]);
      float const found = number(c[static_cast<std::size_t>(m * sizes[1] + n)]);
      worst = std::fmax(worst, std::fabs(found - sum) / std::fmax(1.0f, std::fabs(sum)));
    }
  std::printf("%s: %s\n", row->package.kernel, worst < 0.01f ? "right" : "wrong");
  return worst < 0.01f ? 0 : 1;
}
