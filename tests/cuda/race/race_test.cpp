// The race build's detector: what it reports, and what it must not.
#include <doctest/doctest.h>

#include "../cuda_test.h"
#include "cuda/ptx.cuh"

namespace llm {
namespace {

__global__ void fill_kernel(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

/// Copies what the launch before wrote, before or after it waits for that.
template <bool kWaitsFirst>
__global__ void copy_kernel(int* out, const int* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (kWaitsFirst) ptx::wait_for_predecessor();
  const int value = in[i];
  if (!kWaitsFirst) ptx::wait_for_predecessor();
  out[i] = value;
}

/// Bytes of neighbours, written by different threads.
__global__ void bytes_kernel(unsigned char* out) { out[threadIdx.x] = 1; }

/// Lanes 0-15 write, all read; kMask tells which lanes meet in between.
template <unsigned kMask>
__global__ void half_warp_kernel(int* out) {
  LLM_SHARED(int, values, [32]);
  if (threadIdx.x < 16) values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if ((kMask >> threadIdx.x & 1) != 0) __syncwarp(kMask);
  out[threadIdx.x] = values[threadIdx.x % 16 ^ 1];
}

/// A flag in device memory: set with an atomic, or by a plain store; with fences or without.
template <bool kAtomic, bool kWriterFences, bool kReaderFences>
__global__ void flag_kernel(int* flag, int* data) {
  if (blockIdx.x == 0) {
    data[0] = 5;
    if (kWriterFences) __threadfence();
    if (kAtomic) {
      atomicExch(flag, 1);
    } else {
      flag[0] = 1;
    }
  } else {
    while (atomicAdd(flag, 0) == 0) __nanosleep(100);
    if (kReaderFences) __threadfence();
    data[1] = data[0];
  }
}

__global__ void unwritten_kernel(float* out) {
  LLM_SHARED(float, values, [33]);
  values[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x + 1];
}

/// Copies four numbers of which another lane writes the last meanwhile, and uses some.
template <int kUsed>
__global__ void copy_beside_write_kernel(int* out, int* numbers) {
  LLM_SHARED(int4, copied, [1]);
  if (threadIdx.x == 0) ptx::cp_async_16(copied, numbers);
  ptx::cp_async_commit();
  if (threadIdx.x == 1) numbers[3] = 9;
  ptx::cp_async_wait<0>();
  __syncwarp();
  if (threadIdx.x < kUsed) out[threadIdx.x] = reinterpret_cast<const int*>(copied)[threadIdx.x];
}

__global__ void far_read_kernel(float* out, const float* in) { out[0] = in[5]; }

/// What the detector says of the work, joined.
template <typename Work>
std::string reports_of(Work work) {
  const emu::Session session({});
  try {
    work();
  } catch (const std::exception&) {
    // It says why below.
  }
  std::string all;
  for (const std::string& report : session.reports()) all += report + "\n";
  return all;
}

template <bool kWaitsFirst>
std::string reports_of_overlap(bool host_waits = false) {
  return reports_of([&] {
    DeviceArray<int> x(64);
    DeviceArray<int> y(64);
    const LaunchConfig first{.grid = 2, .block = 32};
    const LaunchConfig second{.grid = 2, .block = 32, .overlaps_predecessor = true};
    LLM_LAUNCH(first, fill_kernel, x.data());
    if (host_waits) LLM_CUDA(cudaDeviceSynchronize());
    LLM_LAUNCH(second, copy_kernel<kWaitsFirst>, y.data(), x.data());
  });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cuda race: a launch that overlaps its predecessor waits before it reads") {
  CHECK(reports_of_overlap<true>() == "");
  CHECK(reports_of_overlap<false>(true) == "");
  const std::string early = reports_of_overlap<false>();
  CAPTURE(early);
  CHECK(contains(early, "race: read at"));
  CHECK(contains(early, "of the launch before, which this one didn't wait for"));
  CHECK(contains(early, "race_test.cpp"));
}

TEST_CASE("cuda race: neighbours' bytes don't race") {
  CHECK(reports_of([] {
          DeviceArray<unsigned char> x(32);
          LLM_LAUNCH(LaunchConfig{.block = 32}, bytes_kernel, x.data());
        }) == "");
}

TEST_CASE("cuda race: __syncwarp orders the lanes of its mask alone") {
  const auto with_kernel = [](auto kernel) {
    return reports_of([&] {
      DeviceArray<int> x(32);
      LLM_LAUNCH(LaunchConfig{.block = 32}, kernel, x.data());
    });
  };
  CHECK(with_kernel(half_warp_kernel<0xffffffff>) == "");
  const std::string half = with_kernel(half_warp_kernel<0x0000ffff>);
  CAPTURE(half);
  CHECK(contains(half, "of the same warp, at byte"));
}

TEST_CASE("cuda race: atomics hand on what was fenced before, to who fences after") {
  const auto with_kernel = [](auto kernel) {
    return reports_of([&] {
      DeviceArray<int> flag(std::vector<int>{0});
      DeviceArray<int> data(2);
      LLM_LAUNCH((LaunchConfig{.grid = 2}), kernel, flag.data(), data.data());
    });
  };
  CHECK(with_kernel(flag_kernel<true, true, true>) == "");
  const std::string unfenced = "of another block, at byte 0 of a device allocation of 8 bytes";
  CHECK(contains(with_kernel(flag_kernel<true, false, true>), unfenced));
  CHECK(contains(with_kernel(flag_kernel<true, true, false>), unfenced));
  const std::string plain = with_kernel(flag_kernel<false, true, true>);
  CAPTURE(plain);
  CHECK(contains(plain, "race: atomic at"));
  CHECK(contains(plain, "of another block, at byte 0 of a device allocation of 4 bytes"));
}

TEST_CASE("cuda race: what an asynchronous copy brings counts once it is used") {
  const auto with_kernel = [](auto kernel) {
    return reports_of([&] {
      DeviceArray<int> out(4);
      DeviceArray<int> numbers(std::vector<int>{1, 2, 3, 4});
      LLM_LAUNCH(LaunchConfig{.block = 32}, kernel, out.data(), numbers.data());
    });
  };
  CHECK(with_kernel(copy_beside_write_kernel<3>) == "");
  const std::string used = with_kernel(copy_beside_write_kernel<4>);
  CAPTURE(used);
  CHECK(contains(used, "by thread 1 of the same warp, at byte 12 of a device allocation"));
}

TEST_CASE("cuda race: shared memory that nobody wrote, and memory that isn't there") {
  const std::string unwritten = reports_of([] {
    DeviceArray<float> x(32);
    LLM_LAUNCH(LaunchConfig{.block = 32}, unwritten_kernel, x.data());
  });
  CAPTURE(unwritten);
  CHECK(contains(unwritten, "thread 31 of block 0"));
  CHECK(contains(unwritten,
                 "reads shared memory that its block hasn't written, at byte 128 of values"));
  const std::string far = reports_of([] {
    DeviceArray<float> x(4);
    LLM_LAUNCH(LaunchConfig{}, far_read_kernel, x.data(), x.data());
  });
  CAPTURE(far);
  CHECK(contains(far,
                 "read of 4 bytes outside every device allocation, at byte 20 of a device "
                 "allocation of 16 bytes"));
}

}  // namespace llm
