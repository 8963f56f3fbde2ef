// What can go wrong with a GPU: each is one plain sentence with the way out, and leaves nothing
// behind.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "backend/cuda.h"
#include "cuda/emu/settings.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace llm {
namespace {

const ModelChoice kTiny{.model = "tiny", .config = {}, .random_weights = {}, .tokenizer = {}};
const Log kQuiet(Verbosity::kQuiet);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What it throws; empty if nothing.
std::string message_of(const std::function<void()>& run, ExitCode code) {
  try {
    run();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return {};
}

DeviceChoice on(Device device, int index = 0) {
  DeviceChoice choice;
  choice.device = device;
  choice.cuda_index = index;
  choice.threads = 2;
  return choice;
}

/// The refusal of --device cuda:index.
std::string refusal(int index = 0) {
  const ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
  DeviceChoice choice = on(Device::kCuda, index);
  return message_of([&] { settle_device(choice, files, kQuiet); }, ExitCode::kRefused);
}

Device chosen_by_auto(DeviceChoice choice = on(Device::kAuto)) {
  settle_device(choice, open_model(kTiny, Device::kAuto, kQuiet), kQuiet);
  return choice.device;
}

/// Loads the built-in model and answers with two tokens.
void answer() {
  const ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
  DeviceChoice choice = on(Device::kCuda);
  settle_device(choice, files, kQuiet);
  LoadedModel model(files, kTiny, choice, 0, 64, kQuiet);
  Engine engine(model.decoder(), {.scheduler = {.context = 64}, .num_cache_tokens = 64});
  Request request;
  request.prompt_ids = {3687, 269, 198, 40};
  request.max_tokens = 2;
  request.num_ids = files.num_ids();
  engine.add(std::move(request));
  while (engine.has_work()) engine.step();
}

bool gives_back(const std::string& function) {
  return function == "cudaFree" || function == "cudaFreeHost" || function == "cudaEventDestroy" ||
         function == "cudaStreamDestroy";
}

emu::Settings with(const std::function<void(emu::DeviceModel&)>& change) {
  emu::Settings settings;
  change(settings.device);
  return settings;
}

}  // namespace

TEST_CASE("cuda: a GPU that can't be used is refused with the reason and the way out") {
  struct Case {
    std::function<void(emu::DeviceModel&)> change;
    const char* reason;
    const char* way_out;
  };
  const Case cases[] = {
      {[](auto& d) { d.count = 0, d.driver_version = 0; }, "no NVIDIA driver", "nvidia-smi"},
      {[](auto& d) { d.count = 0; }, "sees no NVIDIA GPU", "CUDA_VISIBLE_DEVICES"},
      {[](auto& d) { d.driver_version = 11040; }, "serves CUDA 11.4", "update the driver"},
      {[](auto& d) { d.major = 7, d.minor = 5; }, "sm_75) is too old", "sm_80"},
      {[](auto& d) { d.memory_bytes = 4 << 20; }, "MiB free", "--device cpu"},
  };
  for (const Case& c : cases) {
    const emu::Session session(with(c.change));
    const std::string message = refusal();
    CAPTURE(message);
    CHECK(contains(message, c.reason));
    CHECK(contains(message, c.way_out));
    CHECK(contains(message, "--device cpu"));
    CHECK(chosen_by_auto() == Device::kCpu);
  }
  CHECK(contains(refusal(3), "there is only cuda:0"));
}

TEST_CASE("cuda: a build without code for the GPU names both architectures") {
  emu::Session session(emu::Settings{});
  session.fail_call("cudaFuncGetAttributes", 1, cudaErrorNoKernelImageForDevice);
  const std::string message = refusal();
  CAPTURE(message);
  CHECK((contains(message, "this build has code for sm_") ||
         contains(message, "this build has code for no GPU")));
  CHECK(contains(message, "build with CUDA_ARCHS=90"));
}

TEST_CASE("cuda: auto takes the GPU unless something is asked for that only the CPU has") {
  CHECK(chosen_by_auto() == Device::kCuda);
  DeviceChoice f32 = on(Device::kAuto);
  f32.act = ActDType::kF32;
  CHECK(chosen_by_auto(f32) == Device::kCpu);
  DeviceChoice kv = on(Device::kCuda);
  kv.kv_dtype = DType::kF32;
  const ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
  CHECK(contains(message_of([&] { settle_device(kv, files, kQuiet); }, ExitCode::kRefused),
                 "leave out --kv-dtype f32"));
}

TEST_CASE("cuda: a shape that the kernels aren't made for goes to the CPU, or is refused by name") {
  struct Case {
    std::function<void(ModelConfig&)> change;
    const char* named;
  };
  const Case cases[] = {
      {[](ModelConfig& c) { c.head_dim = 36; }, "head_dim is 36"},
      {[](ModelConfig& c) { c.head_dim = 264; }, "head_dim is 264"},
      {[](ModelConfig& c) { c.num_attention_heads = 9 * c.num_key_value_heads; }, "9 attention"},
      {[](ModelConfig& c) { c.hidden_size = 20; }, "hidden_size is 20"},
      {[](ModelConfig& c) { c.intermediate_size = 12; }, "intermediate_size is 12"},
  };
  const ModelFiles tiny = open_model(kTiny, Device::kCuda, kQuiet);
  for (const Case& c : cases) {
    ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
    c.change(files.config);
    DeviceChoice choice = on(Device::kAuto);
    settle_device(choice, files, kQuiet);
    CHECK(choice.device == Device::kCpu);
    choice = on(Device::kCuda);
    const auto refused = [&](const std::string& message) {
      CAPTURE(message);
      CHECK(contains(message, c.named));
      CHECK(contains(message, "use --device cpu"));
    };
    refused(message_of([&] { settle_device(choice, files, kQuiet); }, ExitCode::kRefused));
    refused(message_of([&] { refuse_unfit_draft("d", files.config, tiny, choice); },
                       ExitCode::kRefused));
  }
}

TEST_CASE("cuda: a draft that doesn't fit beside the model is refused before it is loaded") {
  const ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
  ModelConfig draft = files.config;
  draft.num_hidden_layers = 4000;
  DeviceChoice gpu = on(Device::kCuda);
  settle_device(gpu, files, kQuiet);
  const std::string message =
      message_of([&] { refuse_unfit_draft("big", draft, files, gpu); }, ExitCode::kRefused);
  CAPTURE(message);
  CHECK(contains(message, "--draft big needs"));
  CHECK_NOTHROW(refuse_unfit_draft("small", files.config, files, gpu));
  CHECK_NOTHROW(refuse_unfit_draft("big", draft, files, on(Device::kCpu)));
  CHECK(memory_for_cache(files, gpu, {}, &files.config) < memory_for_cache(files, gpu, {}));
}

TEST_CASE("cuda: what steps need is planned, and steps that leave nothing are refused") {
  const ModelFiles files = open_model(kTiny, Device::kCuda, kQuiet);
  DeviceChoice gpu = on(Device::kCuda);
  settle_device(gpu, files, kQuiet);
  const int64_t usual = memory_for_cache(files, gpu, {.logits = 64});
  const int64_t rows = 1000;
  const int64_t logits_bytes = rows * files.config.vocab_size * 4;
  CHECK(memory_for_cache(files, gpu, {.logits = 64 + rows}) == usual - logits_bytes);
  CHECK(memory_for_cache(files, gpu, {.rows = 528 + rows}) < usual - rows * 1024);
  const std::string message = message_of(
      [&] { memory_for_cache(files, gpu, {.rows = int64_t{1} << 24}); }, ExitCode::kRefused);
  CHECK(contains(message, "lower --max-num-batched-tokens"));
}

TEST_CASE("cuda: whichever call of the runtime fails, the error names it and nothing leaks") {
  std::map<std::string, int64_t> calls;
  {
    const emu::Session session(emu::Settings{});
    answer();
    calls = session.counters().calls;
  }
  REQUIRE(calls.size() > 10);
  int64_t failed = 0;
  for (const auto& call : calls) {
    const std::string function = call.first;
    const int64_t count = call.second;
    if (gives_back(function)) continue;  // nobody could do it in its place
    CAPTURE(function);
    for (const int64_t n : {int64_t{1}, count}) {
      CAPTURE(n);
      emu::Session session(emu::Settings{});
      session.fail_call(function, static_cast<int>(n), cudaErrorMemoryAllocation);
      std::string message;
      try {
        answer();
      } catch (const Error& error) {
        message = error.what();
        ++failed;
        CHECK_FALSE(message.empty());
      }
      session.forget_reports();
      CHECK(session.leaks() == std::vector<std::string>());
    }
  }
  CHECK(failed > 10);
  answer();  // the device is fine again
}

TEST_CASE("cuda: a device whose memory is full says so and what to do") {
  emu::Session session(emu::Settings{});
  session.fail_call("cudaMalloc", 20, cudaErrorMemoryAllocation);
  const std::string message = message_of(answer, ExitCode::kFailed);
  CAPTURE(message);
  CHECK(contains(message, "are wanted): 40"));
  CHECK(contains(message, "--ctx"));
}

}  // namespace llm
