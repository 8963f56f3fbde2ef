#include "cuda/emu/ptx_host.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "cuda/emu/device.h"

namespace llm::ptx {
namespace {

using emu::kFullMask;
using emu::kWarpSize;
using emu::WarpOperands;

constexpr int kRow = 8;  // 8x8 matrices of 16-bit elements

float bf16_to_float(uint32_t bits) {
  const uint32_t wide = bits << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}
float low(uint32_t r) { return bf16_to_float(r & 0xffff); }
float high(uint32_t r) { return bf16_to_float(r >> 16); }

// ---- mma.m16n8k16 ----

constexpr int kM = 16;
constexpr int kN = 8;
constexpr int kK = 16;

struct MmaOperand {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

void combine_mma(const WarpOperands& lanes) {
  double a[kM][kK];
  double b[kK][kN];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const MmaOperand& op = lanes.at<MmaOperand>(lane);
    const int g = lane / 4;
    const int t2 = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const int m = g + i % 2 * 8;
      const int k = t2 + i / 2 * 8;
      a[m][k] = low(op.a[i]);
      a[m][k + 1] = high(op.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[t2 + i * 8][g] = low(op.b[i]);
      b[t2 + i * 8 + 1][g] = high(op.b[i]);
    }
  }
  double sums[kM][kN] = {};
  for (int m = 0; m < kM; ++m) {
    for (int k = 0; k < kK; ++k) {
      for (int n = 0; n < kN; ++n) sums[m][n] += a[m][k] * b[k][n];
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const MmaOperand& op = lanes.at<MmaOperand>(lane);
    for (int i = 0; i < 4; ++i) {
      const double sum = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
      op.d[i] = static_cast<float>(op.d[i] + sum);
    }
  }
}

// ---- ldmatrix, movmatrix ----

struct LdmatrixOperand {
  uint32_t* r;
  const void* row;
};

uint16_t element(const void* row, int column) {
  uint16_t value;
  std::memcpy(&value, static_cast<const std::byte*>(row) + column * sizeof(value), sizeof(value));
  return value;
}

uint32_t pair(uint16_t low_half, uint16_t high_half) {
  return static_cast<uint32_t>(high_half) << 16 | low_half;
}

template <bool kTransposed>
void combine_ldmatrix(const WarpOperands& lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4;
    const int t2 = lane % 4 * 2;
    for (int j = 0; j < 4; ++j) {
      const auto row = [&](int i) { return lanes.at<LdmatrixOperand>(kRow * j + i).row; };
      lanes.at<LdmatrixOperand>(lane).r[j] =
          kTransposed ? pair(element(row(t2), g), element(row(t2 + 1), g))
                      : pair(element(row(g), t2), element(row(g), t2 + 1));
    }
  }
}

void ldmatrix(const char* name, uint32_t (&r)[4], const void* row, emu::Combine combine,
              emu::Place place) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    emu::fail_thread(fmt::format("{}: row at {} isn't 16-byte aligned", name, row), place);
  }
  emu::require_shared(row, 16, name, place);
  emu::note_read(row, 16, place);
  LdmatrixOperand operand{r, row};
  emu::warp_collective(name, kFullMask, &operand, combine, place);
}

void combine_movmatrix(const WarpOperands& lanes) {
  uint16_t matrix[kRow][kRow];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t r = lanes.at<uint32_t>(lane);
    matrix[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(r);
    matrix[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(r >> 16);
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    lanes.at<uint32_t>(lane) =
        pair(matrix[lane % 4 * 2][lane / 4], matrix[lane % 4 * 2 + 1][lane / 4]);
  }
}

}  // namespace

void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], emu::Place place) {
  MmaOperand operand{d, a, b};
  emu::warp_collective("mma.m16n8k16", kFullMask, &operand, combine_mma, place);
}

void ldmatrix_x4(uint32_t (&r)[4], const void* shared, emu::Place place) {
  ldmatrix("ldmatrix.x4", r, shared, combine_ldmatrix<false>, place);
}

void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared, emu::Place place) {
  ldmatrix("ldmatrix.x4.trans", r, shared, combine_ldmatrix<true>, place);
}

uint32_t movmatrix_trans(uint32_t r, emu::Place place) {
  emu::warp_collective("movmatrix.trans", kFullMask, &r, combine_movmatrix, place);
  return r;
}

void cp_async_16(void* shared, const void* global, int bytes, emu::Place place) {
  const auto misaligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 != 0; };
  if (bytes < 0 || bytes > 16) emu::fail_thread(fmt::format("cp.async of {} bytes", bytes), place);
  if (misaligned(shared) || misaligned(global)) {
    emu::fail_thread(fmt::format("cp.async from {} to {}: not 16-byte aligned", global, shared),
                     place);
  }
  emu::require_shared(shared, 16, "cp.async", place);
  const emu::DeviceMemory& memory = emu::device().memory();
  if (bytes > 0 && !memory.holds(global, static_cast<size_t>(bytes))) {
    emu::fail_thread(fmt::format("cp.async of {} bytes from {}", bytes, memory.describe(global)),
                     place);
  }
  emu::start_async_copy(shared, global, bytes, place);
}

float exp2_approx(float x) {
  const auto y = static_cast<float>(std::exp2(static_cast<double>(x)));
  return std::fpclassify(y) == FP_SUBNORMAL ? 0.0F : y;
}

}  // namespace llm::ptx
