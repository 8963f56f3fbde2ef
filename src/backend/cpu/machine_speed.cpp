#include "backend/cpu/machine_speed.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "backend/cpu/machine_speed_kernels.h"
#include "base/tensor.h"

namespace llm {

extern const SpeedKernels kSpeedGeneric;
#ifdef __x86_64__
extern const SpeedKernels kSpeedAvx2;
extern const SpeedKernels kSpeedAvx512;
extern const SpeedKernels kSpeedAvx512Bf16;
#endif

namespace {

constexpr int kPasses = 7;
constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr int64_t kMinBytes = int64_t{64} << 20;
constexpr int64_t kPiece = int64_t{4} << 20;
constexpr int64_t kRepeats = 500'000;

const SpeedKernels& speed_kernels(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2:
      return kSpeedAvx2;
    case Isa::kAvx512:
      return kSpeedAvx512;
    case Isa::kAvx512Bf16:
      return kSpeedAvx512Bf16;
#endif
    default:
      return kSpeedGeneric;
  }
}

int64_t buffer_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t memory = pages > 0 ? pages * sysconf(_SC_PAGESIZE) : 0;
  return std::clamp(memory / 8, kMinBytes, kMaxBytes) / kPiece * kPiece;
}

template <typename Pass>
double fastest_seconds(Pass pass) {
  double best = 1e30;
  for (int i = 0; i < kPasses; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

double read_gbs(ThreadPool& pool, const SpeedKernels& kernels) {
  const Buffer buffer(buffer_bytes());
  const int64_t pieces = buffer.size() / kPiece;
  // Pages that were never written are all the same one.
  pool.parallel_for(pieces, [&](int64_t i, int) {
    std::memset(buffer.data() + i * kPiece, 1, static_cast<size_t>(kPiece));
  });
  std::atomic<uint32_t> sum{0};
  const double seconds = fastest_seconds([&] {
    pool.parallel_for(pieces, [&](int64_t i, int) {
      sum += kernels.read(reinterpret_cast<const uint32_t*>(buffer.data() + i * kPiece), kPiece);
    });
  });
  const uint32_t expected = static_cast<uint32_t>(static_cast<uint64_t>(buffer.size() / 4) *
                                                  0x01010101u * static_cast<uint64_t>(kPasses));
  LLM_CHECK(sum == expected, "sum of what was read: {}", sum.load());
  return static_cast<double>(buffer.size()) / seconds / 1e9;
}

double gflops(ThreadPool& pool, void (*loop)(float*, int64_t), double flop_per_repeat) {
  const int threads = pool.num_threads();
  // One task per thread for long enough that every thread takes part; the best pass is one in
  // which they all did at once.
  const double seconds = fastest_seconds([&] {
    pool.parallel_for(threads, [&](int64_t, int) {
      float state[2] = {0.5f, 1.0f};
      loop(state, kRepeats);
      LLM_CHECK(state[1] > 0.0f, "{}", state[1]);
    });
  });
  return flop_per_repeat * static_cast<double>(kRepeats) * threads / seconds / 1e9;
}

}  // namespace

MachineSpeed measure_machine(ThreadPool& pool, Isa isa) {
  const SpeedKernels& kernels = speed_kernels(isa);
  const double flop = 2.0 * kSpeedChains * static_cast<double>(kernels.lanes);
  MachineSpeed speed;
  speed.read_gbs = read_gbs(pool, kernels);
  speed.f32_gflops = gflops(pool, kernels.fma, flop);
  if (kernels.dot != nullptr) speed.bf16_gflops = gflops(pool, kernels.dot, 2 * flop);
  return speed;
}

}  // namespace llm
