// What the emulator says of kernels that are wrong, and what becomes of their launch.
#include <doctest/doctest.h>

#include <functional>

#include "cuda/emu/observer.h"
#include "cuda/emu/sanitizer.h"
#include "cuda/emu/settings.h"
#include "cuda/ptx.cuh"
#include "cuda_test.h"
#include "emu_child.h"

namespace llm {
namespace {

// With a place of their own, so that the test can name it.
__global__ void diverging_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads({"here", 1});
  } else {
    __syncthreads({"there", 2});
  }
}

__global__ void deadlock_kernel() {
  if (threadIdx.x == 63) return;
  if (threadIdx.x < 5) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

__global__ void exited_lane_kernel() {
  if (threadIdx.x < 4) return;
  __shfl_sync(0xffffffff, 1, 0);
}

__global__ void not_in_mask_kernel() { __syncwarp(0x0000ffff); }

__global__ void two_lines_kernel() {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    __syncwarp();
  }
}

__global__ void source_outside_mask_kernel() {
  if (threadIdx.x < 8) __shfl_sync(0xff, 1, 20);
}

__global__ void misaligned_copy_kernel(const float* in) {
  LLM_SHARED(uint4, buffer, [4]);
  ptx::cp_async_16(buffer, in + 1);
}

__global__ void copy_past_shared_kernel(const float* in) {
  LLM_SHARED(uint4, buffer, [4]);
  ptx::cp_async_16(buffer + 4, in);
}

__global__ void copy_from_nowhere_kernel(const float* in) {
  LLM_SHARED(uint4, buffer, [4]);
  ptx::cp_async_16(buffer, in + 1024);
}

__global__ void misaligned_ldmatrix_kernel() {
  LLM_SHARED(uint4, rows, [33]);
  uint32_t r[4];
  ptx::ldmatrix_x4(r, reinterpret_cast<const char*>(&rows[threadIdx.x]) + 8);
}

__global__ void much_shared_kernel() {
  LLM_SHARED(float, most, [200 * 256]);
  most[0] = 0;
}

__global__ void no_wait_kernel() {
  if (blockIdx.x == 0) ptx::wait_for_predecessor();
}

__global__ void trap_kernel() {
  if (threadIdx.x == 3) __trap();
}

/// Reports call the kernel "kernel".
void launch(void (*kernel)(), unsigned threads, size_t shared_bytes = 0) {
  LLM_LAUNCH((LaunchConfig{.block = threads, .shared_bytes = shared_bytes}), kernel);
}

struct Wrong {
  std::function<void()> run;
  std::vector<std::string> says;
};

void check_report(const Wrong& wrong) {
  for (const EmulatedSchedule& schedule : all_schedules()) {
    CAPTURE(schedule.name);
    const emu::Session session(schedule.settings);
    std::string thrown;
    try {
      wrong.run();
      LLM_CUDA(cudaDeviceSynchronize());
    } catch (const std::exception& e) {
      thrown = e.what();
    }
    REQUIRE(session.reports().size() >= 1);
    const std::string report = session.reports()[0];
    CAPTURE(report);
    CAPTURE(thrown);
    CHECK(!thrown.empty());
    for (const std::string& part : wrong.says) CHECK(report.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("cuda emulator: threads that don't meet are reported by kernel, line and count") {
  const Wrong wrongs[] = {
      {[] { LLM_LAUNCH(LaunchConfig{.block = 64}, diverging_kernel); },
       {"diverging_kernel, block (0,0,0)", "the barrier diverges", "here:1", "there:2"}},
      {[] { LLM_LAUNCH(LaunchConfig{.block = 64}, deadlock_kernel); },
       {"deadlock_kernel, block (0,0,0): deadlock: 58 threads wait at __syncthreads",
        "emu_reports_test.cpp:", "5 threads wait at __syncwarp", "1 exited"}},
      {[] { launch(not_in_mask_kernel, 32); }, {"isn't in its mask 0xffff"}},
      {[] { launch(two_lines_kernel, 32); }, {"of the same mask 0xffffffff calls __syncwarp at"}},
      {[] { launch(source_outside_mask_kernel, 32); },
       {"reads lane 20, which is not in the mask 0xff"}},
      {[] { launch(trap_kernel, 32); }, {"thread (3,0,0)", "__trap"}},
  };
  for (const Wrong& wrong : wrongs) check_report(wrong);
}

TEST_CASE("cuda emulator: a collective that names a lane which left is reported") {
  for (const EmulatedSchedule& schedule : all_schedules()) {
    const emu::Session session(schedule.settings);
    CHECK_THROWS(([] {
      launch(exited_lane_kernel, 32);
      LLM_CUDA(cudaDeviceSynchronize());
    }()));
    REQUIRE(session.reports().size() == 1);
    // Who comes first depends on the schedule: the lane that exits, or one that waits for it.
    const std::string report = session.reports()[0];
    CAPTURE(report);
    CHECK((report.find("which have exited or don't exist") != std::string::npos ||
           report.find("waits for its lane") != std::string::npos));
  }
  check_report({[] { launch(exited_lane_kernel, 20); }, {"names lanes 0xfff"}});
}

TEST_CASE("cuda emulator: addresses of asynchronous copies and ldmatrix are checked") {
  const auto with_input = [](void (*kernel)(const float*)) {
    const DeviceArray<float> in(64);
    LLM_LAUNCH(LaunchConfig{}, kernel, in.data());
    LLM_CUDA(cudaDeviceSynchronize());
  };
  check_report({[&] { with_input(misaligned_copy_kernel); }, {"cp.async", "not 16-byte aligned"}});
  check_report({[&] { with_input(copy_past_shared_kernel); },
                {"cp.async: 16 bytes at", "byte 64 of buffer (64 bytes)"}});
  check_report({[&] { with_input(copy_from_nowhere_kernel); },
                {"cp.async", "byte 4096 of a device allocation of 256 bytes"}});
  check_report(
      {[&] { launch(misaligned_ldmatrix_kernel, 32); }, {"ldmatrix.x4", "isn't 16-byte aligned"}});
}

TEST_CASE("cuda emulator: limits of launches") {
  const auto launch_sized = [](dim3 grid, dim3 block, size_t shared_bytes) {
    LLM_LAUNCH((LaunchConfig{.grid = grid, .block = block, .shared_bytes = shared_bytes}),
               not_in_mask_kernel);
  };
  check_report({[&] { launch_sized(1, 1025, 0); }, {"block of 1025x1x1 threads (1 to 1024"}});
  check_report({[&] { launch_sized(1, dim3(1, 1, 65), 0); }, {"block of 1x1x65 threads"}});
  check_report({[&] { launch_sized(0, 1, 0); }, {"grid of 0x1x1 blocks"}});
  check_report({[&] { launch_sized(dim3(1, 65536), 1, 0); }, {"grid of 1x65536x1 blocks"}});
  check_report({[&] { launch_sized(1, 1, 227 * 1024 + 1); }, {"232449 bytes of shared memory"}});
  check_report({[&] { launch(much_shared_kernel, 1, 28 * 1024); },
                {"shared array most of 204800 bytes: the block has 28672 of 232448 already"}});
}

TEST_CASE("cuda emulator: each block of a launch that overlaps its predecessor waits for it") {
  check_report(
      {[] { LLM_LAUNCH((LaunchConfig{.grid = 2, .overlaps_predecessor = true}), no_wait_kernel); },
       {"no_wait_kernel, block (1,0,0): ended without wait_for_predecessor()"}});
}

TEST_CASE("cuda emulator: after a report the device fails until the session forgets") {
  emu::Session session({});
  CHECK_THROWS(launch(trap_kernel, 32));
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("__trap") !=
        std::string::npos);
  session.forget_reports();
  CHECK(cudaMalloc(&p, 16) == cudaSuccess);
  CHECK(session.leaks() == std::vector<std::string>{"16 bytes"});
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(session.leaks().empty());
}

// ---- What ends the process ----

TEST_CASE("cuda emulator child: the host reads device memory" * doctest::skip()) {
  const emu::Session session({.strict = true});
  const DeviceArray<float> x(std::vector<float>{1, 2, 3});
  const volatile float* const host = x.data();
  CHECK(host[0] == 1);
}

TEST_CASE("cuda emulator: in strict sessions the host can't touch device memory") {
  const ChildResult child = run_skipped_test("cuda emulator child: the host reads device memory");
  CHECK(child.crashed);
  CHECK(child.output.find("the host touched device memory") != std::string::npos);
  CHECK(child.output.find("byte 0 of a device allocation of 12 bytes") != std::string::npos);
}

}  // namespace llm
