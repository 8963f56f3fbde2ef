// What a decode step on a GPU costs: launches, calls, copies.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "cuda/emu/settings.h"
#include "tiny_model.h"

namespace llm {
namespace {

using Counts = std::map<std::string, int64_t>;

int64_t sum(const Counts& counts) {
  int64_t all = 0;
  for (const auto& [name, count] : counts) all += count;
  return all;
}

TEST_CASE("cuda loop: a step is 5 L + 3 launches, two calls, and no wait but for the last ids") {
  const emu::Session session(emu::Settings{});
  TinyModel gpu(Device::kCuda);
  const EngineSetting setting{.ignore_eos = true};
  const std::unique_ptr<Engine> engine = gpu.make_engine(setting);
  for (const Ids& prompt : {Ids{300, 301, 302}, Ids{400, 401, 402, 403}}) {
    engine->add(gpu.request(prompt, 40, setting));
  }
  for (int i = 0; i < 6; ++i) engine->step();  // the prompts, a step as it is, one recorded

  const emu::Counters before = session.counters();
  constexpr int64_t kSteps = 10;
  for (int64_t i = 0; i < kSteps; ++i) CHECK(engine->step().size() == 2);
  const emu::Counters after = session.counters();
  CHECK(sum(after.launches) - sum(before.launches) == kSteps * (5 * gpu.num_layers() + 3));
  const auto calls = [&](const std::string& name) {
    const auto count = [&](const Counts& counts) {
      const auto found = counts.find(name);
      return found == counts.end() ? 0 : found->second;
    };
    return count(after.calls) - count(before.calls);
  };
  CHECK(calls("cudaGraphLaunch") == kSteps);
  CHECK(calls("cudaLaunchKernel") == kSteps);  // the sampling
  for (const std::string name :
       {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaStreamSynchronize",
        "cudaDeviceSynchronize", "cudaMemcpy", "cudaGraphInstantiate", "cudaStreamBeginCapture"}) {
    CAPTURE(name);
    CHECK(calls(name) == 0);
  }
  // Two ids, a fault each.
  CHECK(after.bytes_to_host - before.bytes_to_host == kSteps * 2 * 8);
  CHECK(session.reports().empty());
}

}  // namespace
}  // namespace llm
