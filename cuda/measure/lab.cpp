#include "cuda/measure/lab.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/size_text.h"

namespace llm::measure {
namespace {

constexpr int kWarmups = 2;

Event make_timer() {
  cudaEvent_t event = nullptr;
  LLM_CUDA(cudaEventCreate(&event));
  return Event(event);
}

struct GraphRecordDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

Times times_of(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const size_t middle = us.size() / 2;
  const double median = us.size() % 2 == 1 ? us[middle] : (us[middle - 1] + us[middle]) / 2;
  return {median, us.front(), us.back(), static_cast<int>(us.size())};
}

const char* name_of(Unit unit) {
  switch (unit) {
    case Unit::kGbs:
      return "GB/s";
    case Unit::kTflops:
      return "TFLOP/s";
    case Unit::kUs:
      return "us";
    case Unit::kMs:
      return "ms";
  }
  return "";
}

double value_of(const Case& what, double us) {
  if (us <= 0) return 0;  // less than the clock sees
  switch (what.unit) {
    case Unit::kGbs:
      return what.amount / us / 1e3;
    case Unit::kTflops:
      return what.amount / us / 1e6;
    case Unit::kUs:
      return us;
    case Unit::kMs:
      return us / 1e3;
  }
  return 0;
}

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  LLM_CUDA(cudaGetDevice(&device));
  LLM_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

GraphExec record_graph(cudaStream_t stream, const std::function<void()>& queue_all) {
  LLM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  queue_all();
  cudaGraph_t graph = nullptr;
  LLM_CUDA(cudaStreamEndCapture(stream, &graph));
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphRecordDeleter> owner(graph);
  cudaGraphExec_t exec = nullptr;
  LLM_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  return GraphExec(exec);
}

int64_t scattered(int64_t i, int64_t count) {
  constexpr int64_t kPrime = 7919;
  return count % kPrime == 0 ? i : i * kPrime % count;
}

Lab::Lab(const std::string& csv_path, bool small)
    : csv_path_(csv_path), small_(small), csv_(std::fopen(csv_path.c_str(), "w"), std::fclose) {
  if (!csv_) refuse("{}: can't be written: does its folder exist?", csv_path);
  stream_ = make_stream();
  begin_ = make_timer();
  end_ = make_timer();
  multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount);
  l2_bytes_ = small ? 1024 : attribute(cudaDevAttrL2CacheSize);
  fmt::print(csv_.get(),
             "section,name,parameters,median_us,least_us,most_us,repetitions,amount,unit,value\n");
}

Lab::~Lab() { cudaStreamSynchronize(stream()); }

void Lab::begin_section(const std::string& name) {
  section_ = name;
  is_first_ = true;
  fmt::print("-- {}\n", name);
}

double Lab::timed_us(const std::function<void()>& queue_all) {
  LLM_CUDA(cudaEventRecord(begin_.get(), stream()));
  queue_all();
  LLM_CUDA(cudaEventRecord(end_.get(), stream()));
  LLM_CUDA(cudaEventSynchronize(end_.get()));
  float ms = 0;
  LLM_CUDA(cudaEventElapsedTime(&ms, begin_.get(), end_.get()));
  return ms * 1e3;
}

Times Lab::time_graph(const Case& what, int launches, const std::function<void(int)>& queue_one) {
  const auto queue_all = [&] {
    for (int i = 0; i < launches; ++i) queue_one(i);
  };
  queue_one(0);  // whatever is set up at the first call
  LLM_CUDA(cudaStreamSynchronize(stream()));
  const GraphExec graph = record_graph(stream(), queue_all);
  const auto replay = [&] { LLM_CUDA(cudaGraphLaunch(graph.get(), stream())); };
  return record(what, [&] {
    std::vector<double> us;
    for (int i = 0; i < (small_ ? 0 : kWarmups); ++i) replay();
    for (int i = 0; i < repetitions(); ++i) us.push_back(timed_us(replay) / launches);
    return us;
  });
}

Times Lab::time_queued(const Case& what, const std::function<void()>& queue_all) {
  return record(what, [&] {
    std::vector<double> us;
    for (int i = 0; i < (small_ ? 0 : kWarmups); ++i) queue_all();
    for (int i = 0; i < repetitions(); ++i) us.push_back(timed_us(queue_all));
    return us;
  });
}

Times Lab::time_host(const Case& what, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  return record(what, [&] {
    std::vector<double> us;
    for (int i = 0; i < repetitions(); ++i) {
      const auto begin = Clock::now();
      work();
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    return us;
  });
}

Times Lab::record(const Case& what, const std::function<std::vector<double>()>& measure) {
  const Times times = times_of(measure());
  write_row(what, times);
  if (is_first_) {
    is_first_ = false;
    Case again = what;
    again.name += " again";
    write_row(again, times_of(measure()));
  }
  return times;
}

void Lab::write_row(const Case& what, const Times& times) {
  const double value = value_of(what, times.median_us);
  fmt::print(csv_.get(), "{},{},{},{:.3f},{:.3f},{:.3f},{},{:.6g},{},{:.6g}\n", section_, what.name,
             what.parameters, times.median_us, times.least_us, times.most_us, times.repetitions,
             what.amount, name_of(what.unit), value);
  // What was measured stays, whatever comes next.
  std::fflush(csv_.get());
  fmt::print("{:<22} {:<48} {:>11.2f} us {:>10.5g} {}\n", what.name, what.parameters,
             times.median_us, value, name_of(what.unit));
  std::fflush(stdout);
}

void Lab::note(const std::string& text) { fmt::print("note: {}\n", text); }

DeviceMemory Lab::memory(int64_t bytes, Fill fill) {
  constexpr int64_t kAligned = 16;
  DeviceMemory memory = uninitialized_device_memory((bytes + kAligned - 1) / kAligned * kAligned);
  launch_fill(memory.data(), memory.size(), fill, seed_++, stream());
  return memory;
}

DeviceMemory Lab::zeros(int64_t bytes) {
  DeviceMemory memory = uninitialized_device_memory(std::max<int64_t>(bytes, 1));
  LLM_CUDA(cudaMemsetAsync(memory.data(), 0, static_cast<size_t>(memory.size()), stream()));
  return memory;
}

bool Lab::has_room(int64_t bytes, const std::string& what) {
  constexpr int64_t kSpare = int64_t{1} << 30;  // workspaces, and what is small
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  LLM_CUDA(cudaStreamSynchronize(stream()));
  LLM_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  const int64_t spare = small_ ? 0 : kSpare;
  if (bytes + spare <= static_cast<int64_t>(free_bytes)) return true;
  note(fmt::format("left out: {}: needs {}, but {} are free", what, size_text(bytes + spare),
                   size_text(static_cast<int64_t>(free_bytes))));
  return false;
}

int Lab::copies(int64_t bytes, int most) const {
  const int64_t wanted = (4 * l2_bytes_ + bytes - 1) / bytes;
  return static_cast<int>(std::clamp<int64_t>(wanted, 1, small_ ? 2 : most));
}

}  // namespace llm::measure
