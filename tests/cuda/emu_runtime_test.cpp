// The emulator's stand-in for the CUDA runtime: memory, streams, events, graphs and errors behave
// as the real one's do where a program can tell.
#include <doctest/doctest.h>

#include <array>

#include "cuda_test.h"

namespace llm {
namespace {

__global__ void add_kernel(int* x, int value) { atomicAdd(x, value); }
__global__ void copy_kernel(int* out, const int* in) { *out = *in; }

void launch_add(int* x, int value, cudaStream_t stream) {
  LLM_LAUNCH(LaunchConfig{.stream = stream}, add_kernel, x, value);
}

/// Destroyed at the end of the test, also of a failed one.
struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    LLM_CUDA(cudaStreamCreateWithFlags(&handle, flags));
  }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { LLM_CUDA(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

/// What the device holds now, without waiting for any stream.
int peek(const DeviceArray<int>& x) {
  const Stream own;
  int value = 0;
  LLM_CUDA(cudaMemcpyAsync(&value, x.data(), sizeof(int), cudaMemcpyDeviceToHost, own.handle));
  LLM_CUDA(cudaStreamSynchronize(own.handle));
  return value;
}

}  // namespace

TEST_CASE("cuda emulator: lazy streams work only when something waits for them") {
  const emu::Session session({.lazy_streams = true});
  const Stream stream;
  DeviceArray<int> x(std::vector<int>{0});
  launch_add(x.data(), 5, stream.handle);
  CHECK(peek(x) == 0);
  CHECK(cudaStreamQuery(stream.handle) == cudaErrorNotReady);  // does one piece of work
  CHECK(cudaStreamQuery(stream.handle) == cudaSuccess);
  CHECK(peek(x) == 5);
  launch_add(x.data(), 5, stream.handle);
  LLM_CUDA(cudaStreamSynchronize(stream.handle));
  CHECK(peek(x) == 10);
  launch_add(x.data(), 5, stream.handle);
  CHECK(x.host()[0] == 15);
  CHECK(session.counters().launches.at("add_kernel") == 3);
  CHECK(session.reports().empty());
}

TEST_CASE("cuda emulator: events order streams, and only up to where they were recorded") {
  const emu::Session session({.lazy_streams = true});
  const Stream first;
  const Stream second;
  const Event event;
  DeviceArray<int> x(std::vector<int>{0});
  DeviceArray<int> y(std::vector<int>{0});
  launch_add(x.data(), 1, first.handle);
  LLM_CUDA(cudaEventRecord(event.handle, first.handle));
  launch_add(x.data(), 10, first.handle);
  LLM_CUDA(cudaStreamWaitEvent(second.handle, event.handle, 0));
  LLM_LAUNCH(LaunchConfig{.stream = second.handle}, copy_kernel, y.data(), x.data());
  LLM_CUDA(cudaStreamSynchronize(second.handle));
  CHECK(peek(y) == 1);
  CHECK(peek(x) == 1);
  CHECK(cudaEventQuery(event.handle) == cudaSuccess);
  // Without the event the copy comes first: what a test of missing order sees.
  LLM_LAUNCH(LaunchConfig{.stream = second.handle}, copy_kernel, y.data(), x.data());
  LLM_CUDA(cudaStreamSynchronize(second.handle));
  CHECK(peek(y) == 1);
  LLM_CUDA(cudaDeviceSynchronize());
  CHECK(peek(x) == 11);
}

TEST_CASE("cuda emulator: streams that aren't non-blocking keep order with the default stream") {
  const emu::Session session({.lazy_streams = true});
  const Stream blocking(cudaStreamDefault);
  DeviceArray<int> x(std::vector<int>{0});
  launch_add(x.data(), 1, blocking.handle);
  LLM_LAUNCH(LaunchConfig{}, add_kernel, x.data(), 2);
  CHECK(peek(x) == 1);
  launch_add(x.data(), 4, blocking.handle);
  CHECK(peek(x) == 3);
  CHECK(x.host()[0] == 7);
}

TEST_CASE("cuda emulator: copies from pinned memory read it late, from other memory at once") {
  const emu::Session session({.lazy_streams = true});
  const Stream stream;
  DeviceArray<int> x(std::vector<int>{0, 0});
  int pageable = 1;
  void* pinned = nullptr;
  LLM_CUDA(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault));
  int& slot = *static_cast<int*>(pinned);
  slot = 1;
  LLM_CUDA(
      cudaMemcpyAsync(x.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, stream.handle));
  LLM_CUDA(
      cudaMemcpyAsync(x.data() + 1, &slot, sizeof(int), cudaMemcpyHostToDevice, stream.handle));
  pageable = 2;
  slot = 2;  // too early: the copy may not have read it
  CHECK(x.host() == std::vector<int>{1, 2});
  LLM_CUDA(cudaFreeHost(pinned));
  const emu::Counters counters = session.counters();
  CHECK(counters.bytes_to_device == 16);
  CHECK(counters.bytes_to_host == 8);
}

TEST_CASE("cuda emulator: a graph replays with the arguments as captured") {
  for (const bool lazy : {false, true}) {
    const emu::Session session({.lazy_streams = lazy});
    const Stream stream;
    DeviceArray<int> x(std::vector<int>{0});
    int value = 3;
    LLM_CUDA(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
    launch_add(x.data(), value, stream.handle);
    cudaGraph_t graph = nullptr;
    LLM_CUDA(cudaStreamEndCapture(stream.handle, &graph));
    value = 100;
    CHECK(peek(x) == 0);  // captured, not run
    cudaGraphExec_t exec = nullptr;
    LLM_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i) LLM_CUDA(cudaGraphLaunch(exec, stream.handle));
    CHECK(x.host()[0] == 6);

    // The same work with another argument can take its place; other work can't.
    const auto capture = [&](int launches) {
      LLM_CUDA(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < launches; ++i) launch_add(x.data(), value, stream.handle);
      cudaGraph_t captured = nullptr;
      LLM_CUDA(cudaStreamEndCapture(stream.handle, &captured));
      return captured;
    };
    const cudaGraph_t same = capture(1);
    const cudaGraph_t other = capture(2);
    size_t nodes = 0;
    LLM_CUDA(cudaGraphGetNodes(other, nullptr, &nodes));
    CHECK(nodes == 2);
    cudaGraphExecUpdateResultInfo info{};
    CHECK(cudaGraphExecUpdate(exec, other, &info) == cudaErrorGraphExecUpdateFailure);
    CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
    LLM_CUDA(cudaGraphExecUpdate(exec, same, &info));
    LLM_CUDA(cudaGraphLaunch(exec, stream.handle));
    CHECK(x.host()[0] == 106);
    for (const cudaGraph_t g : {graph, same, other}) LLM_CUDA(cudaGraphDestroy(g));
    LLM_CUDA(cudaGraphExecDestroy(exec));
    CHECK(session.reports().empty());
  }
}

TEST_CASE("cuda emulator: waiting or allocating within a capture spoils it") {
  const emu::Session session({});
  const Stream stream;
  const auto spoiled_by = [&](auto forbidden) {
    LLM_CUDA(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal));
    CHECK(forbidden() == cudaErrorStreamCaptureUnsupported);
    cudaStreamCaptureStatus status{};
    LLM_CUDA(cudaStreamIsCapturing(stream.handle, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  };
  spoiled_by([&] { return cudaStreamSynchronize(stream.handle); });
  spoiled_by([] { return cudaDeviceSynchronize(); });
  spoiled_by([] {
    void* p = nullptr;
    return cudaMalloc(&p, 16);
  });
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("cuda emulator: memory is limited, counted and checked") {
  // Other tests may have left allocations, where they make calls fail.
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  LLM_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  const size_t limit = total_bytes - free_bytes + (1 << 20);
  emu::Settings settings;
  settings.device.memory_bytes = limit;
  emu::Session session(settings);
  void* p = nullptr;
  void* q = nullptr;
  LLM_CUDA(cudaMalloc(&p, 600 << 10));
  CHECK(cudaMalloc(&q, 600 << 10) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  LLM_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  CHECK(total_bytes == limit);
  CHECK(free_bytes == 424 << 10);
  CHECK(reinterpret_cast<uintptr_t>(p) % 256 == 0);
  CHECK(session.leaks() == std::vector<std::string>{"614400 bytes"});

  const std::array<char, 16> host{};
  auto* const end = static_cast<char*>(p) + (600 << 10);
  CHECK(cudaMemcpy(end - 16, host.data(), 16, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(end - 15, host.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(p, host.data(), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(end - 1, 0, 2) == cudaErrorInvalidValue);
  CHECK(cudaFree(static_cast<char*>(p) + 1) == cudaErrorInvalidValue);
  CHECK(session.reports().size() == 4);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(session.leaks().empty());
}

TEST_CASE("cuda emulator: any call can be made to fail, once") {
  emu::Session session({});
  void* p = nullptr;
  session.fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  LLM_CUDA(cudaMalloc(&p, 16));
  void* q = nullptr;
  CHECK(cudaMalloc(&q, 16) == cudaErrorMemoryAllocation);
  LLM_CUDA(cudaMalloc(&q, 16));
  session.fail_call("cudaLaunchKernel", 1, cudaErrorNoKernelImageForDevice);
  std::string thrown;
  try {
    launch_add(static_cast<int*>(p), 1, nullptr);
  } catch (const std::exception& e) {
    thrown = e.what();
  }
  CHECK(thrown.find("add_kernel: no kernel image is available for execution on the device") !=
        std::string::npos);
  session.fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  session.fail_call("cudaFree", 1, cudaErrorUnknown);
  CHECK(cudaFree(p) == cudaErrorUnknown);
  CHECK(session.leaks().size() == 2);
  LLM_CUDA(cudaFree(p));
  LLM_CUDA(cudaFree(q));
  CHECK(session.counters().calls.at("cudaMalloc") == 3);
}

TEST_CASE("cuda emulator: devices are as the session says") {
  emu::Settings settings;
  settings.device = {
      .count = 2, .name = "Test GPU", .major = 8, .minor = 6, .memory_bytes = 1 << 30};
  const emu::Session session(settings);
  cudaDeviceProp prop{};
  LLM_CUDA(cudaGetDeviceProperties(&prop, 1));
  CHECK(std::string(prop.name) == "Test GPU");
  CHECK(prop.major == 8);
  CHECK(prop.totalGlobalMem == 1 << 30);
  int value = 0;
  LLM_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0));
  CHECK(value == 6);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  const emu::Session without({.device = {.count = 0}});
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
}

}  // namespace llm
