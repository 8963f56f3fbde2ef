#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr double kMaxNumber = 1e6;  // far beyond any sensible temperature or penalty

template <typename T>
std::optional<T> parse_whole(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

std::string describe(const NumberRange& range) {
  return fmt::format("a number {} {} {} {}", range.above_min ? "above" : "from", range.min,
                     range.above_min ? "and up to" : "to", range.max);
}

/// As a float, which is what the value becomes: 1e-300 isn't above 0 then.
bool inside(double number, const NumberRange& range) {
  const double value = static_cast<float>(number);
  return value <= range.max && (range.above_min ? value > range.min : value >= range.min);
}

void add_model_options(CLI::App& app, ModelChoice& model) {
  begin_section(app, "Model");
  refuse_empty(app.add_option("-m,--model", model.model,
                              "Model folder, or hub id Owner/Name in the Hugging Face cache "
                              "(default: $LLM_MODEL, else the built-in model)"))
      ->type_name("DIR|NAME");
  refuse_empty(app.add_option("--config", model.config,
                              "Run without a checkpoint: a known config (qwen3-0.6b) or a "
                              "config.json; needs --random-weights, or --device shape"))
      ->type_name("NAME|FILE");
  // CLI11 calls the value of a bare flag "true".
  app.add_flag("--random-weights", model.random_weights,
               "Seeded random weights for --config (also --random-weights=bf16)")
      ->transform([](std::string type) { return type == "true" ? "bf16" : type; }, "");
  refuse_empty(app.add_option("--tokenizer", model.tokenizer,
                              "Folder with tokenizer.json and chat template to use with the model"))
      ->type_name("DIR");
}

constexpr int64_t kMaxDevices = 1024;

void take_device(DeviceChoice& choice, const std::string& word) {
  choice.cuda_index = 0;
  if (word == "auto" || word == "cpu" || word == "shape" || word == "cuda") {
    choice.device = word == "auto"   ? Device::kAuto
                    : word == "cpu"  ? Device::kCpu
                    : word == "cuda" ? Device::kCuda
                                     : Device::kShape;
    return;
  }
  const std::string prefix = "cuda:";
  const auto index =
      word.starts_with(prefix) ? parse_integer(word.substr(prefix.size())) : std::nullopt;
  if (!index || *index < 0 || *index >= kMaxDevices) {
    refuse("--device \"{}\": expected auto, cpu, cuda, cuda:N or shape", printable(word));
  }
  choice.device = Device::kCuda;
  choice.cuda_index = static_cast<int>(*index);
}

void add_device_options(CLI::App& app, DeviceChoice& device) {
  begin_section(app, "Computing");
  device.device = Device::kAuto;
  app.add_option_function<std::string>(
         "--device", [&device](const std::string& word) { take_device(device, word); },
         "Where to compute: auto takes a GPU that holds the model, else the CPU; shape does no "
         "arithmetic (for --trace-shapes and bench)")
      ->type_name("auto|cpu|cuda|cuda:N|shape");
  add_integer(app, "-t,--threads", device.threads, 1, kMaxThreads,
              "Threads (default: the cores that affinity and cgroup quota allow)");
  add_choice(
      app, "--kv-dtype", {"auto", "bf16", "f32", "fp8", "int8"},
      [&device](const std::string& word) {
        device.kv_dtype.reset();
        for (const DType dtype : kKvDTypes) {
          if (word == kv_dtype_name(dtype)) device.kv_dtype = dtype;
        }
      },
      "Type of cached keys and values (auto: bf16, or f32 with --act f32); fp8 and int8 take half "
      "the memory and change answers a little (llm eval shows how much)");
  add_choice(
      app, "--act", {"auto", "f32", "bf16"},
      [&device](const std::string& word) {
        if (word == "auto") device.act.reset();
        if (word == "bf16") device.act = ActDType::kBF16;
        if (word == "f32") device.act = ActDType::kF32;
      },
      "What activations are rounded to in matrix products (auto: what the device multiplies "
      "best)");
  app.add_flag(
      "--invariant", device.invariant,
      "On a GPU: the same answer however a prompt is cut into steps, as on the CPU; prompts "
      "take longer");
}

}  // namespace

ModelFiles open_model(CommonOptions& common, const Log& log) {
  ModelFiles files = open_model(common.model, common.device.device, log);
  settle_device(common.device, files, log);
  return files;
}

void refuse_together(bool a, const char* a_name, bool b, const char* b_name) {
  if (a && b) refuse("{} and {} can't be used together: leave one of them out", a_name, b_name);
}

std::optional<int64_t> parse_integer(const std::string& text) { return parse_whole<int64_t>(text); }

std::optional<double> parse_number(const std::string& text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

CLI::Option* add_integer(CLI::App& app, const std::string& flags, std::optional<int64_t>& value,
                         int64_t min, int64_t max, const std::string& help) {
  const std::string flag = flags.substr(flags.rfind("--"));
  return app
      .add_option_function<std::string>(
          flags,
          [=, &value](const std::string& text) {
            value = parse_integer(text);
            if (value && *value >= min && *value <= max) return;
            if (max == std::numeric_limits<int64_t>::max()) {
              refuse("{} \"{}\": expected a whole number of at least {}", flag, text, min);
            }
            refuse("{} \"{}\": expected a whole number from {} to {}", flag, text, min, max);
          },
          help)
      ->type_name("N");
}

CLI::Option* add_number(CLI::App& app, const std::string& flags, std::optional<double>& value,
                        const NumberRange& range, const std::string& help) {
  const std::string flag = flags.substr(flags.rfind("--"));
  return app
      .add_option_function<std::string>(
          flags,
          [=, &value](const std::string& text) {
            value = parse_number(text);
            if (!value || !inside(*value, range)) {
              const bool vanished = value && range.above_min && *value > range.min;
              refuse("{} \"{}\": expected {}{}", flag, text, describe(range),
                     vanished && *value < range.max ? " in single precision" : "");
            }
          },
          help)
      ->type_name("X");
}

CLI::Option* add_choice(CLI::App& app, const std::string& flags, std::vector<std::string> words,
                        std::function<void(const std::string&)> take, const std::string& help) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : "|") + word;
  const std::string flag = flags.substr(flags.rfind("--"));
  return app
      .add_option_function<std::string>(
          flags,
          [=](const std::string& text) {
            if (std::find(words.begin(), words.end(), text) == words.end()) {
              refuse("{} {}: expected {}", flag, text, all);
            }
            take(text);
          },
          help)
      ->type_name(all);
}

CLI::Option* add_text(CLI::App& app, const std::string& flags, std::optional<std::string>& value,
                      const std::string& type, const std::string& help) {
  return app
      .add_option_function<std::string>(
          flags, [&value](const std::string& text) { value = text; }, help)
      ->type_name(type);
}

CLI::Option* refuse_empty(CLI::Option* option) {
  const std::string flag = option->get_name();
  return option->check(
      [flag](const std::string& value) -> std::string {
        if (value.empty()) refuse("{} \"\": expected a value (is a shell variable not set?)", flag);
        return {};
      },
      "");
}

void begin_section(CLI::App& app, const std::string& title) { app.option_defaults()->group(title); }

Log CommonOptions::log() const {
  if (quiet) return Log(Verbosity::kQuiet);
  return Log(verbose ? Verbosity::kVerbose : Verbosity::kNormal);
}

void add_seed_option(CLI::App& app, std::optional<uint64_t>& seed) {
  app.add_option_function<std::string>(
         "--seed",
         [&seed](const std::string& text) {
           seed = parse_whole<uint64_t>(text);
           if (!seed) refuse("--seed \"{}\": expected a whole number from 0 to 2^64-1", text);
         },
         "Seed of the draws, and of --random-weights (default: a random one, reported; 0 for the "
         "weights)")
      ->type_name("N");
}

void add_common_options(CLI::App& app, CommonOptions& options) {
  add_model_options(app, options.model);
  add_device_options(app, options.device);
  add_integer(app, "-c,--ctx", options.ctx, 1, std::numeric_limits<int32_t>::max(),
              "Context: most tokens of prompt and answer (default: what the request needs, up to "
              "the model's maximum and the memory)");
  add_seed_option(app, options.seed);
  begin_section(app, "Messages");
  CLI::Option* quiet = app.add_flag("-q,--quiet", options.quiet, "No messages, only results");
  app.add_flag("-v,--verbose", options.verbose, "More messages")->excludes(quiet);
}

void add_sampling_options(CLI::App& app, SamplingOptions& o) {
  begin_section(app, "Sampling");
  const NumberRange any = {-kMaxNumber, kMaxNumber};
  add_number(app, "--temp", o.temperature, {0, kMaxNumber},
             "Temperature; 0 takes the most probable token (default: generation_config.json)");
  add_integer(app, "--top-k", o.top_k, -1, std::numeric_limits<int32_t>::max(),
              "Keep the N most probable tokens; 0 or -1: off");
  add_number(app, "--top-p", o.top_p, {0, 1, true},
             "Keep the fewest tokens that reach this probability; 1: off");
  add_number(app, "--min-p", o.min_p, {0, 1},
             "Drop tokens less than this times as probable as the best; 0: off");
  add_number(app, "--repetition-penalty", o.repetition_penalty, {0, kMaxNumber, true},
             "Divide (or multiply, if negative) logits of tokens in prompt and answer; 1: off");
  add_number(app, "--presence-penalty", o.presence_penalty, any,
             "Subtract once from logits of tokens in the answer; 0: off");
  add_number(app, "--frequency-penalty", o.frequency_penalty, any,
             "Subtract per occurrence from logits of tokens in the answer; 0: off");
  app.add_flag("--greedy", o.greedy, "Always the most probable token, as --temp 0")
      ->description(
          "Always the most probable token, as --temp 0. Order of the steps: penalties, "
          "temperature, top-k, top-p, min-p, draw");
}

SamplingParams resolve_sampling(const SamplingOptions& o, const GenerationConfig& defaults,
                                uint64_t seed) {
  if (o.greedy && o.temperature.value_or(0) > 0) {
    refuse("--greedy and --temp {} contradict each other: give one of them", *o.temperature);
  }
  const bool draws = o.temperature || o.top_k || o.top_p || o.min_p || defaults.do_sample;
  const auto pick = [](const std::optional<double>& flag, std::optional<float> file, float off) {
    return flag ? static_cast<float>(*flag) : file.value_or(off);
  };
  SamplingParams p;
  p.temperature = draws ? pick(o.temperature, defaults.temperature, 1.0f) : 0.0f;
  if (o.greedy) p.temperature = 0.0f;
  p.top_k = o.top_k ? *o.top_k : defaults.top_k.value_or(0);
  p.top_p = pick(o.top_p, defaults.top_p, 1.0f);
  p.min_p = pick(o.min_p, defaults.min_p, 0.0f);
  p.repetition_penalty = pick(o.repetition_penalty, defaults.repetition_penalty, 1.0f);
  p.presence_penalty = pick(o.presence_penalty, std::nullopt, 0.0f);
  p.frequency_penalty = pick(o.frequency_penalty, std::nullopt, 0.0f);
  p.seed = seed;
  validate(p);
  return p;
}

}  // namespace llm
