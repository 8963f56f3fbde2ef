#include "cuda/emu/device.h"

#include <fmt/format.h>

#include "cuda/emu/host_access.h"

namespace llm::emu {

Device& device() {
  static Device instance;
  return instance;
}

// ---- Calls and errors ----

cudaError_t Device::begin_call(const char* function) {
  const int64_t count = ++counters_.calls[function];
  const auto failing = failing_calls_.find(function);
  if (failing != failing_calls_.end()) {
    const auto error = failing->second.find(count);
    if (error != failing->second.end()) return error->second;
  }
  return cudaSuccess;
}

cudaError_t Device::end_call(cudaError_t error) {
  if (error == cudaSuccess) error = sticky_error_;
  if (error != cudaSuccess) last_error_ = error;
  return error;
}

cudaError_t Device::last_error(bool clear) {
  const std::lock_guard lock(mutex_);
  const cudaError_t error = last_error_;
  if (clear) last_error_ = sticky_error_;
  return error;
}

const char* Device::launch_failure() {
  const std::lock_guard lock(mutex_);
  return reports_.empty() ? "unspecified launch failure" : reports_.back().c_str();
}

void Device::report(cudaError_t error, const std::string& what) {
  reports_.push_back(what);
  if (sticky_error_ == cudaSuccess) sticky_error_ = error;
}

cudaError_t Device::refuse_call(cudaError_t error, const std::string& what) {
  reports_.push_back(what);
  return error;
}

// ---- Work ----

void Device::touch_memory(const std::function<void()>& body) {
  memory_.set_accessible(true);
  body();
  memory_.set_accessible(!settings_.strict);
}

void Device::run_kernel(const KernelLaunch& launch) {
  if (sticky_error_ != cudaSuccess) return;
  ++counters_.launches[launch.name];
  touch_memory([&] {
    std::vector<std::string> wrong = executor_.run(launch, settings_);
    if (const std::optional<std::string> overrun = memory_.overrun()) {
      wrong.push_back(fmt::format("kernel {}: memory was written {}", launch.name, *overrun));
    }
    for (const std::string& what : wrong) report(cudaErrorLaunchFailure, what);
  });
}

cudaError_t Device::submit(cudaStream_t handle, Work work) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::move(work));
    return cudaSuccess;
  }
  // The default stream and those that wait for it run each other's work in order.
  if (stream == &default_stream_) {
    for (const auto& [other, owner] : streams_) {
      if (other->waits_for_default) finish(*other);
    }
  } else if (stream->waits_for_default) {
    finish(default_stream_);
  }
  stream->ends_with_launch = work.is_launch;
  stream->queue.push_back(std::move(work));
  if (!settings_.lazy_streams) finish(*stream);
  return cudaSuccess;
}

void Device::run_one(CUstream_st& stream) {
  if (stream.queue.empty()) return;
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  work.run();
}

void Device::finish(CUstream_st& stream) {
  while (!stream.queue.empty()) run_one(stream);
}

void Device::wait_for(CUstream_st& stream) {
  finish(stream);
  stream.ends_with_launch = false;
}

void Device::wait_for_all() {
  wait_for(default_stream_);
  for (const auto& [stream, owner] : streams_) wait_for(*stream);
}

bool Device::follows_launch(cudaStream_t handle) {
  const CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return false;
  if (stream->capture == nullptr) return stream->ends_with_launch;
  return !stream->capture->nodes.empty() && stream->capture->nodes.back().is_launch;
}

void Device::finish(const Moment& moment) {
  while (!moment.done && moment.stream != nullptr && !moment.stream->queue.empty()) {
    run_one(*moment.stream);
  }
}

// ---- Streams ----

CUstream_st* Device::stream_of(cudaStream_t stream) {
  if (stream == nullptr || stream == &default_stream_ || stream == cudaStreamLegacy ||
      stream == cudaStreamPerThread) {
    return &default_stream_;
  }
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.get();
}

CUstream_st* Device::create_stream(bool waits_for_default) {
  auto stream = std::make_unique<CUstream_st>();
  stream->waits_for_default = waits_for_default;
  CUstream_st* const handle = stream.get();
  streams_[handle] = std::move(stream);
  return handle;
}

bool Device::destroy_stream(cudaStream_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return false;
  finish(*stream);
  streams_.erase(found);
  return true;
}

bool Device::is_capturing() const {
  for (const auto& [stream, owner] : streams_) {
    if (stream->capture != nullptr) return true;
  }
  return false;
}

cudaError_t Device::refuse_in_capture() {
  cudaError_t error = cudaSuccess;
  for (const auto& [stream, owner] : streams_) {
    if (stream->capture == nullptr) continue;
    stream->capture_spoiled = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

// ---- Pinned host memory ----

void Device::add_pinned(void* p, size_t bytes) { pinned_[static_cast<std::byte*>(p)] = bytes; }

bool Device::remove_pinned(void* p) { return pinned_.erase(static_cast<std::byte*>(p)) > 0; }

bool Device::is_pinned(const void* p) const {
  const auto* const address = static_cast<const std::byte*>(p);
  auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return false;
  --after;
  return address < after->first + after->second;
}

// ---- Sessions ----

Settings Device::install(const Settings& settings) {
  const std::lock_guard lock(mutex_);
  wait_for_all();
  const Settings previous = settings_;
  settings_ = settings;
  memory_.set_accessible(!settings.strict);
  counters_ = {};
  failing_calls_.clear();
  return previous;
}

void Device::forget_errors() {
  const std::lock_guard lock(mutex_);
  reports_.clear();
  sticky_error_ = cudaSuccess;
  last_error_ = cudaSuccess;
}

void Device::fail_call(const std::string& function, int n, cudaError_t error) {
  const std::lock_guard lock(mutex_);
  failing_calls_[function][counters_.calls[function] + n] = error;
}

std::vector<std::string> Device::reports() {
  const std::lock_guard lock(mutex_);
  return {reports_.begin(), reports_.end()};
}

Counters Device::counters_copy() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

int64_t Device::next_allocation() {
  const std::lock_guard lock(mutex_);
  return memory_.next_id();
}

std::vector<DeviceMemory::Allocation> Device::allocations() {
  const std::lock_guard lock(mutex_);
  return memory_.allocations();
}

Session::Session(const Settings& settings)
    : previous_(device().install(settings)), first_allocation_(device().next_allocation()) {
  device().forget_errors();
  if (settings.strict) host_access_ = std::make_unique<HostAccessMessage>();
}

Session::~Session() {
  device().install(previous_);
  device().forget_errors();
}

std::vector<std::string> Session::reports() const { return device().reports(); }
void Session::forget_reports() { device().forget_errors(); }

void Session::fail_call(const std::string& function, int n, cudaError_t error) {
  device().fail_call(function, n, error);
}

Counters Session::counters() const { return device().counters_copy(); }

std::vector<std::string> Session::leaks() const {
  std::vector<std::string> leaks;
  for (const DeviceMemory::Allocation& allocation : device().allocations()) {
    if (allocation.id >= first_allocation_) {
      leaks.push_back(fmt::format("{} bytes", allocation.bytes));
    }
  }
  return leaks;
}

}  // namespace llm::emu
