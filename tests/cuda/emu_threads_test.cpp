// The emulator's threads, barriers and warp collectives.
#include <doctest/doctest.h>

#include <numeric>

#include "cuda_test.h"

namespace llm {
namespace {

struct Rows {
  const float* values;
  int width;
};

__global__ void __launch_bounds__(256, 2)
    block_sum_kernel(float* out, const __grid_constant__ Rows in) {
  LLM_SHARED(float, warp_sums, [32]);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < in.width; i += static_cast<int>(blockDim.x)) {
    sum += in.values[blockIdx.x * in.width + i];
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (threadIdx.x % warpSize == 0) warp_sums[threadIdx.x / warpSize] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned w = 0; w < blockDim.x / warpSize; ++w) total += warp_sums[w];
    out[blockIdx.x] = total;
  }
}

}  // namespace

TEST_CASE("cuda emulator: a sum over blocks, warps and lanes") {
  constexpr int kRows = 3;
  constexpr int kColumns = 1000;
  std::vector<float> in(kRows * kColumns);
  std::iota(in.begin(), in.end(), 0.0F);
  for_each_schedule([&] {
    const DeviceArray<float> x(in);
    DeviceArray<float> y(kRows);
    LLM_LAUNCH((LaunchConfig{.grid = kRows, .block = 256}), block_sum_kernel, y.data(),
               (Rows{x.data(), kColumns}));
    const std::vector<float> got = y.host();
    for (int r = 0; r < kRows; ++r) {
      // Exact in float32: below 2^24.
      CHECK(got[r] == doctest::Approx(kColumns * (r * kColumns + (kColumns - 1) / 2.0)));
    }
  });
}

}  // namespace llm
