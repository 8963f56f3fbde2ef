// Values of the emulator's collectives, atomics and device functions; orders of its schedules.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/emu/observer.h"
#include "cuda_test.h"

namespace llm {
namespace {

constexpr int kLanes = 32;

/// Eight results of each lane, of the values 10 * lane.
__global__ void shuffle_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = 10 * lane;
  int* const results = out + lane * 8;
  results[0] = __shfl_sync(0xffffffff, value, 5);
  results[1] = __shfl_sync(0xffffffff, value, 9, 8);
  results[2] = __shfl_up_sync(0xffffffff, value, 3);
  results[3] = __shfl_up_sync(0xffffffff, value, 3, 8);
  results[4] = __shfl_down_sync(0xffffffff, value, 3);
  results[5] = __shfl_down_sync(0xffffffff, value, 3, 8);
  results[6] = __shfl_xor_sync(0xffffffff, value, 6);
  results[7] = __shfl_xor_sync(0xffffffff, value, 16, 16);
}

__global__ void vote_kernel(unsigned* out) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned* const results = out + lane * 8;
  results[0] = __ballot_sync(0xffffffff, lane % 3 == 0);
  results[1] = static_cast<unsigned>(__any_sync(0xffffffff, lane == 7));
  results[2] = static_cast<unsigned>(__all_sync(0xffffffff, lane != 7));
  results[3] = __match_any_sync(0xffffffff, lane % 4);
  int all_equal = -1;
  results[4] = __match_all_sync(0xffffffff, lane / 64, &all_equal);
  results[5] = static_cast<unsigned>(all_equal);
  results[6] = __reduce_add_sync(0xffffffff, static_cast<unsigned>(lane));
  // Two halves of the warp apart, in code that diverges.
  if (lane < 16) {
    results[7] = static_cast<unsigned>(__reduce_min_sync(0x0000ffff, lane - 8));
  } else {
    results[7] = static_cast<unsigned>(__reduce_max_sync(0xffff0000, lane));
  }
}

__global__ void block_vote_kernel(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 80) return;  // barriers count those that are left
  const int count = __syncthreads_count(thread % 2);
  const int all = __syncthreads_and(thread < 80);
  const int any = __syncthreads_or(thread == 100);
  if (thread == 0) {
    out[0] = count;
    out[1] = all;
    out[2] = any;
  }
}

struct Atomics {
  int sum;
  unsigned increments;
  unsigned decrements;
  float float_sum;
  int least;
  unsigned long long greatest;
  unsigned bits;
  unsigned swapped;
};

__global__ void atomic_kernel(Atomics* a) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&a->sum, static_cast<int>(i));
  atomicInc(&a->increments, 9U);
  atomicDec(&a->decrements, 9U);
  atomicAdd(&a->float_sum, 0.5F);
  atomicMin(&a->least, 50 - static_cast<int>(i));
  atomicMax(&a->greatest, static_cast<unsigned long long>(i) << 33);
  atomicOr(&a->bits, 1U << (i % 32));
  if (atomicCAS(&a->swapped, i, i + 1) == i && i == 0) a->swapped = 77;
}

/// Each thread notes when it came, before and after a barrier.
__global__ void order_kernel(int* out, int* next) {
  const unsigned n = blockDim.x;
  out[threadIdx.x] = atomicAdd(&next[0], 1);
  __syncthreads();
  out[n + threadIdx.x] = atomicAdd(&next[1], 1);
}

__global__ void unwritten_kernel(float* out, const float* in) {
  LLM_SHARED(float, unwritten, [32]);
  out[threadIdx.x] = unwritten[threadIdx.x];
  out[32 + threadIdx.x] = in[threadIdx.x];
}

}  // namespace

TEST_CASE("cuda emulator: shuffles") {
  for_each_schedule([] {
    DeviceArray<int> out(kLanes * 8);
    LLM_LAUNCH(LaunchConfig{.block = kLanes}, shuffle_kernel, out.data());
    const std::vector<int> got = out.host();
    for (int lane = 0; lane < kLanes; ++lane) {
      const int in_8 = lane % 8;
      const int expected[8] = {
          5,
          lane - in_8 + 1,
          lane < 3 ? lane : lane - 3,
          in_8 < 3 ? lane : lane - 3,
          lane + 3 > 31 ? lane : lane + 3,
          in_8 + 3 > 7 ? lane : lane + 3,
          lane ^ 6,
          lane < 16 ? lane : lane - 16,  // only earlier groups can be read
      };
      for (int i = 0; i < 8; ++i) {
        CAPTURE(i);
        CHECK(got[lane * 8 + i] == 10 * expected[i]);
      }
    }
  });
}

TEST_CASE("cuda emulator: votes, matches and reductions") {
  for_each_schedule([] {
    DeviceArray<unsigned> out(kLanes * 8);
    LLM_LAUNCH(LaunchConfig{.block = kLanes}, vote_kernel, out.data());
    const std::vector<unsigned> got = out.host();
    for (int lane = 0; lane < kLanes; ++lane) {
      const unsigned expected[8] = {
          0x49249249U, 1, 0,           0x11111111U << (lane % 4),
          0xffffffffU, 1, 31 * 32 / 2, lane < 16 ? static_cast<unsigned>(-8) : 31U};
      for (int i = 0; i < 8; ++i) {
        CAPTURE(i);
        CHECK(got[lane * 8 + i] == expected[i]);
      }
    }
    DeviceArray<int> votes(3);
    LLM_LAUNCH(LaunchConfig{.block = 100}, block_vote_kernel, votes.data());
    CHECK(votes.host() == std::vector<int>{40, 1, 0});
  });
}

TEST_CASE("cuda emulator: atomics of all blocks count") {
  for_each_schedule([] {
    DeviceArray<Atomics> a(1);
    a.set({Atomics{0, 0, 0, 0, 100, 0, 0, 1000}});
    LLM_LAUNCH((LaunchConfig{.grid = 4, .block = 32}), atomic_kernel, a.data());
    const Atomics got = a.host()[0];
    CHECK(got.sum == 127 * 128 / 2);
    CHECK(got.increments == 128 % 10);
    CHECK(got.decrements == (10 - 128 % 10) % 10);
    CHECK(got.float_sum == 64);
    CHECK(got.least == 50 - 127);
    CHECK(got.greatest == 127ULL << 33);
    CHECK(got.bits == 0xffffffff);
    CHECK(got.swapped == 1000);
  });
}

#ifdef LLM_CUDA_EMU

namespace {

/// When each of 96 threads came, in two rounds around a barrier.
std::vector<int> arrival(const emu::Settings& settings) {
  const emu::Session session(settings);
  DeviceArray<int> out(2 * 96);
  DeviceArray<int> next(2);
  next.fill(0);
  LLM_LAUNCH(LaunchConfig{.block = 96}, order_kernel, out.data(), next.data());
  std::vector<int> got = out.host();
  CHECK(session.reports().empty());
  // The order is the same after a barrier.
  CHECK(std::equal(got.begin(), got.begin() + 96, got.begin() + 96));
  got.resize(96);
  return got;
}

}  // namespace

TEST_CASE("cuda emulator: threads run in the schedule's order") {
  using emu::Order;
  std::vector<int> forward(96);
  std::iota(forward.begin(), forward.end(), 0);
  CHECK(arrival({.order = Order::kForward}) == forward);
  CHECK(arrival({.order = Order::kReverse}) == std::vector<int>(forward.rbegin(), forward.rend()));
  const std::vector<int> first = arrival({.order = Order::kRandom, .seed = 1});
  CHECK(first != forward);
  CHECK(first != arrival({.order = Order::kRandom, .seed = 2}));
  CHECK(first == arrival({.order = Order::kRandom, .seed = 1}));
  CHECK(std::is_permutation(first.begin(), first.end(), forward.begin()));
  for (int warp = 0; warp < 3; ++warp) {
    const auto [least, greatest] =
        std::minmax_element(first.begin() + warp * 32, first.begin() + warp * 32 + 32);
    CHECK(*greatest - *least == 31);
  }
}

TEST_CASE("cuda emulator: memory that nobody wrote is NaN") {
  if (emu::has_observer()) return;  // the race build reports the read instead
  const emu::Session session({});
  const DeviceArray<float> unwritten(32);
  DeviceArray<float> out(64);
  for (int launch = 0; launch < 2; ++launch) {
    LLM_LAUNCH(LaunchConfig{.block = 32}, unwritten_kernel, out.data(), unwritten.data());
    for (const float value : out.host()) CHECK(std::isnan(value));
  }
}

TEST_CASE("cuda emulator: device functions") {
  CHECK(__byte_perm(0x33221100, 0x77665544, 0x6420) == 0x66442200);
  CHECK(__byte_perm(0x00000080, 0, 0x8888) == 0xffffffff);
  CHECK(__funnelshift_l(0x80000000, 1, 1) == 3);
  CHECK(__funnelshift_r(0x80000000, 1, 31) == 3);
  CHECK(__brev(0x1) == 0x80000000);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(8) == 4);
  CHECK(__popc(0xf0f0) == 8);
  CHECK(__umulhi(0x80000000, 6) == 3);
  CHECK(__dp4a(0x01ff02fe, 0x02030405, 10) == 10 + 2 - 3 + 8 - 10);
  CHECK(__float2int_rn(2.5F) == 2);
  CHECK(__float2int_rn(3e9F) == 2147483647);
  CHECK(__float2int_rn(-3e9F) == -2147483647 - 1);
  CHECK(__float2int_rz(-1.9F) == -1);
  CHECK(__float2uint_rn(-1.0F) == 0);
  CHECK(__float_as_uint(1.0F) == 0x3f800000);
  CHECK(rsqrtf(4.0F) == 0.5F);
  CHECK(__expf(1.0F) == static_cast<float>(std::exp(1.0)));
  CHECK(__saturatef(-1.0F) == 0.0F);
  CHECK(__saturatef(NAN) == 0.0F);
  const auto bf = [](float x) { return __float2bfloat16(x); };
  CHECK(__bfloat162float(__hfma(bf(1.5F), bf(1.5F), bf(0.25F))) == 2.5F);
  CHECK(min(-1, 2) == -1);
  CHECK(max(1U, 2U) == 2);
  CHECK(max(1.0F, NAN) == 1.0F);
}

#endif

}  // namespace llm
