// Options that several subcommands share, each declared once, and strict number parsing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/sampling.h"
#include "base/log.h"
#include "engine/session.h"
#include "io/generation_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace llm {

/// Options that are added to `app` from here on are listed in help under this title. Without one
/// they come last.
void begin_section(CLI::App& app, const std::string& title);

struct CommonOptions {
  ModelChoice model;
  DeviceChoice device;
  std::optional<int64_t> ctx;
  std::optional<uint64_t> seed;
  bool quiet = false;
  bool verbose = false;

  Log log() const;
};

/// -m, --config, --random-weights, --tokenizer, --device, -t, -c, --kv-dtype, --act, --seed, -q,
/// -v.
void add_common_options(CLI::App& app, CommonOptions& options);

/// The model's small files; decides where to compute (settle_device).
ModelFiles open_model(CommonOptions& common, const Log& log);

/// --seed alone.
void add_seed_option(CLI::App& app, std::optional<uint64_t>& seed);

/// Only what the command line says; resolve_sampling() adds the model's defaults.
struct SamplingOptions {
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  bool greedy = false;
};

/// --temp, --top-k, --top-p, --min-p, the penalties and --greedy.
void add_sampling_options(CLI::App& app, SamplingOptions& options);

/// Flags over generation_config.json. Without do_sample in that file the default is greedy, unless
/// one of --temp, --top-k, --top-p, --min-p asks for a draw. Refuses --greedy with --temp > 0.
SamplingParams resolve_sampling(const SamplingOptions& options, const GenerationConfig& defaults,
                                uint64_t seed);

struct NumberRange {
  double min;
  double max;
  bool above_min = false;  // min itself is outside
};

// One option each. `flags` is CLI11's "-c,--ctx". A value that isn't wholly a decimal number in the
// range is refused (exit code 2) naming flag, value and range.
CLI::Option* add_integer(CLI::App& app, const std::string& flags, std::optional<int64_t>& value,
                         int64_t min, int64_t max, const std::string& help);
CLI::Option* add_number(CLI::App& app, const std::string& flags, std::optional<double>& value,
                        const NumberRange& range, const std::string& help);
CLI::Option* add_text(CLI::App& app, const std::string& flags, std::optional<std::string>& value,
                      const std::string& type, const std::string& help);

/// Refuses an empty value, which is most often a shell variable that isn't set.
CLI::Option* refuse_empty(CLI::Option* option);

/// Refuses (exit code 2) two options that are both there.
void refuse_together(bool a, const char* a_name, bool b, const char* b_name);

/// `take` gets the value, which is one of `words`.
CLI::Option* add_choice(CLI::App& app, const std::string& flags, std::vector<std::string> words,
                        std::function<void(const std::string&)> take, const std::string& help);

/// The whole text as a decimal integer, or nothing: no blanks, no "0x", no octal, no overflow.
std::optional<int64_t> parse_integer(const std::string& text);
/// The whole text as a finite decimal number, or nothing.
std::optional<double> parse_number(const std::string& text);

}  // namespace llm
