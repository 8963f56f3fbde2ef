// The host twins of ptx.cuh against PTX ISA's tables of fragments, written here a second time from
// the text: "Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix", "movmatrix".
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "cuda/ptx.cuh"
#include "cuda_test.h"

namespace llm {
namespace {

constexpr int kLanes = 32;

/// Small integers, exact in BF16, different for each (row, column).
float a_value(int m, int k) { return static_cast<float>(m * 16 + k - 120); }
float b_value(int k, int n) { return static_cast<float>((k * 8 + n) % 61 - 30); }

uint32_t packed(float low, float high) {
  const auto bits = [](float x) { return static_cast<uint32_t>(__float_as_uint(x) >> 16); };
  return bits(high) << 16 | bits(low);
}

__global__ void mma_kernel(float* d, const uint32_t* a, const uint32_t* b) {
  uint32_t a_fragment[4];
  uint32_t b_fragment[2];
  float d_fragment[4];
  for (int i = 0; i < 4; ++i) a_fragment[i] = a[threadIdx.x * 4 + i];
  for (int i = 0; i < 2; ++i) b_fragment[i] = b[threadIdx.x * 2 + i];
  for (int i = 0; i < 4; ++i) d_fragment[i] = d[threadIdx.x * 4 + i];
  ptx::mma_bf16(d_fragment, a_fragment, b_fragment);
  for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = d_fragment[i];
}

constexpr int kPitch = 24;  // elements; 48 bytes, not a power of two

__global__ void ldmatrix_kernel(uint32_t* out, const uint16_t* matrices, bool transposed) {
  LLM_DYN_SHARED(uint16_t, rows);
  for (int c = 0; c < 8; ++c) rows[threadIdx.x * kPitch + c] = matrices[threadIdx.x * 8 + c];
  __syncwarp();
  uint32_t r[4];
  if (transposed) {
    ptx::ldmatrix_x4_trans(r, &rows[threadIdx.x * kPitch]);
  } else {
    ptx::ldmatrix_x4(r, &rows[threadIdx.x * kPitch]);
  }
  for (int j = 0; j < 4; ++j) out[threadIdx.x * 4 + j] = r[j];
}

__global__ void movmatrix_kernel(uint32_t* out, const uint32_t* in) {
  out[threadIdx.x] = ptx::movmatrix_trans(in[threadIdx.x]);
}

}  // namespace

TEST_CASE("cuda emulator: mma.m16n8k16 has the fragments of the PTX tables") {
  std::vector<uint32_t> a(kLanes * 4);
  std::vector<uint32_t> b(kLanes * 2);
  std::vector<float> d(kLanes * 4);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2;
    const int in_group = lane % 4;
    // a_i: row = group for i = 0, 1, 4, 5, else group + 8; column = 2 in_group + (i & 1), + 8 for
    // i >= 4. Register j holds a_2j and a_2j+1.
    for (int j = 0; j < 4; ++j) {
      const int i = 2 * j;
      const int row = (i == 0 || i == 4) ? group : group + 8;
      const int column = in_group * 2 + (i >= 4 ? 8 : 0);
      a[lane * 4 + j] = packed(a_value(row, column), a_value(row, column + 1));
    }
    // b_i: row = 2 in_group + (i & 1), + 8 for i >= 2; column = group.
    for (int j = 0; j < 2; ++j) {
      const int row = in_group * 2 + (j == 1 ? 8 : 0);
      b[lane * 2 + j] = packed(b_value(row, group), b_value(row + 1, group));
    }
    for (int i = 0; i < 4; ++i) d[lane * 4 + i] = static_cast<float>(lane + i);
  }
  for_each_schedule([&] {
    DeviceArray<float> d_device(d);
    const DeviceArray<uint32_t> a_device(a);
    const DeviceArray<uint32_t> b_device(b);
    LLM_LAUNCH(LaunchConfig{.block = kLanes}, mma_kernel, d_device.data(), a_device.data(),
               b_device.data());
    const std::vector<float> got = d_device.host();
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        // c_i: row = group for i < 2, else group + 8; column = 2 in_group + (i & 1).
        const int m = (lane >> 2) + (i < 2 ? 0 : 8);
        const int n = lane % 4 * 2 + (i & 1);
        float expected = static_cast<float>(lane + i);
        for (int k = 0; k < 16; ++k) expected += a_value(m, k) * b_value(k, n);
        CHECK(got[lane * 4 + i] == expected);
      }
    }
  });
}

TEST_CASE("cuda emulator: ldmatrix.x4 deals four matrices, plain and transposed") {
  // Element (row, column) of matrix j is 100 j + 8 row + column; rows of all matrices in a list.
  std::vector<uint16_t> matrices(4 * 64);
  const auto value = [](int j, int row, int column) { return 100 * j + 8 * row + column; };
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 64; ++i) {
      matrices[j * 64 + i] = static_cast<uint16_t>(value(j, i / 8, i % 8));
    }
  }
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    for_each_schedule([&] {
      DeviceArray<uint32_t> out(kLanes * 4);
      const DeviceArray<uint16_t> in(matrices);
      LLM_LAUNCH(
          (LaunchConfig{.block = kLanes, .shared_bytes = kLanes * kPitch * sizeof(uint16_t)}),
          ldmatrix_kernel, out.data(), in.data(), transposed);
      const std::vector<uint32_t> got = out.host();
      for (int lane = 0; lane < kLanes; ++lane) {
        const int g = lane / 4;
        const int t = lane % 4;
        for (int j = 0; j < 4; ++j) {
          const int low = transposed ? value(j, 2 * t, g) : value(j, g, 2 * t);
          const int high = transposed ? value(j, 2 * t + 1, g) : value(j, g, 2 * t + 1);
          CHECK(got[lane * 4 + j] == static_cast<uint32_t>(high << 16 | low));
        }
      }
    });
  }
}

TEST_CASE("cuda emulator: movmatrix.trans transposes what a warp holds") {
  std::vector<uint32_t> in(kLanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t first = static_cast<uint32_t>(lane) * 2;  // row lane / 4, column 2 (lane % 4)
    in[lane] = (first + 1) << 16 | first;
  }
  for_each_schedule([&] {
    DeviceArray<uint32_t> out(kLanes);
    const DeviceArray<uint32_t> in_device(in);
    LLM_LAUNCH(LaunchConfig{.block = kLanes}, movmatrix_kernel, out.data(), in_device.data());
    const std::vector<uint32_t> got = out.host();
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t row = lane / 4;
      const uint32_t column = lane % 4 * 2;
      CHECK(got[lane] == (((column + 1) * 8 + row) << 16 | (column * 8 + row)));
    }
  });
}

#ifdef LLM_CUDA_EMU
TEST_CASE("cuda emulator: ex2.approx flushes subnormal results") {
  CHECK(ptx::exp2_approx(3.0F) == 8.0F);
  CHECK(ptx::exp2_approx(-126.0F) == std::numeric_limits<float>::min());
  CHECK(ptx::exp2_approx(-127.0F) == 0.0F);
  CHECK(ptx::exp2_approx(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(std::isnan(ptx::exp2_approx(std::numeric_limits<float>::quiet_NaN())));
}
#endif

}  // namespace llm
