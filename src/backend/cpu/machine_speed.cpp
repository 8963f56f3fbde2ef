#include "backend/cpu/machine_speed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double read_gbs(ThreadPool& pool, const SpeedKernels& kernels, int64_t available_bytes) {
  const int64_t bytes = std::min(available_bytes / 8, kMaxBytes) / kPiece * kPiece;
  if (bytes < kMinBytes) return 0;
  const Buffer buffer(bytes);
  const int64_t pieces = buffer.size() / kPiece;
  // Pages that were never written are all the same one.
  pool.parallel_for(pieces, [&](int64_t i, int) {
    std::memset(buffer.data() + i * kPiece, 1, static_cast<size_t>(kPiece));
  });
  std::atomic<uint32_t> sum{0};
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(pieces, [&](int64_t i, int) {
      sum += kernels.read(reinterpret_cast<const uint32_t*>(buffer.data() + i * kPiece), kPiece);
    });
    best = std::min(best, seconds_since(start));
  }
  const uint64_t words = static_cast<uint64_t>(buffer.size()) / 4;
  const uint32_t expected = static_cast<uint32_t>(words * 0x01010101u * kPasses);
  LLM_CHECK(sum == expected, "sum of what was read: {}, not {}", sum.load(), expected);
  return static_cast<double>(buffer.size()) / best / 1e9;
}

double gflops(ThreadPool& pool, void (*loop)(float*, int64_t), double flop_per_repeat) {
  const int threads = pool.num_threads();
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<double> seconds(static_cast<size_t>(threads));
    std::atomic<int> waiting{threads};
    // Each task waits for all, so every thread takes exactly one, all at the same time.
    pool.parallel_for(threads, [&](int64_t i, int) {
      float state[2] = {0.5f, 1.0f};
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      const auto start = std::chrono::steady_clock::now();
      loop(state, kRepeats);
      seconds[static_cast<size_t>(i)] = seconds_since(start);
      LLM_CHECK(state[1] > 0.0f, "{}", state[1]);
    });
    best = std::min(best, *std::max_element(seconds.begin(), seconds.end()));
  }
  return flop_per_repeat * static_cast<double>(kRepeats) * threads / best / 1e9;
}

}  // namespace

MachineSpeed measure_machine(ThreadPool& pool, Isa isa, int64_t available_bytes) {
  const SpeedKernels& kernels = speed_kernels(isa);
  const double flop = 2.0 * kSpeedChains * static_cast<double>(kernels.lanes);
  MachineSpeed speed;
  speed.read_gbs = read_gbs(pool, kernels, available_bytes);
  speed.f32_gflops = gflops(pool, kernels.fma, flop);
  if (kernels.dot != nullptr) speed.bf16_gflops = gflops(pool, kernels.dot, 2 * flop);
  return speed;
}

}  // namespace llm
