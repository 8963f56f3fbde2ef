// llm inspect: what a model folder, or one safetensors file, holds.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/devices_report.h"
#include "cli/inspect_report.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/session.h"
#include "io/generation_config.h"
#include "io/json.h"
#include "io/model_dir.h"
#include "io/tensor_check.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

struct InspectOptions {
  std::string model;
  bool check = false;
  bool devices = false;
  bool json = false;
};

/// Findings about tensors that hold NaNs or infinities.
void check_tensors(InspectReport& report) {
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) {
      const NonFiniteCount count = count_non_finite(entry);
      if (count.nan == 0 && count.inf == 0) continue;
      report.findings.push_back(fmt::format("{}: tensor \"{}\" holds {} NaN and {} infinite values",
                                            file.path().string(), printable(name), count.nan,
                                            count.inf));
    }
  }
}

/// Findings about ids for which the embedding has no row.
void check_ids(InspectReport& report) {
  const int64_t vocab_size = report.config->vocab_size;
  for (const int32_t id : report.eos_token_ids) {
    if (id < vocab_size) continue;
    report.findings.push_back(
        fmt::format("eos_token_id {} is not below vocab_size {}: the model "
                    "can't stop on it",
                    id, vocab_size));
  }
  if (report.tokenizer_ids.value_or(0) > vocab_size) {
    report.findings.push_back(fmt::format("tokenizer.json has ids up to {}, but vocab_size is {}",
                                          *report.tokenizer_ids - 1, vocab_size));
  }
}

ExitCode print_report(InspectReport& report, const InspectOptions& options) {
  report.checked = options.check;
  if (options.check) {
    check_tensors(report);
    if (report.config) check_ids(report);
  }
  write_stdout(options.json ? inspect_json(report) : inspect_table(report));
  return report.findings.empty() ? ExitCode::kOk : ExitCode::kRefused;
}

ExitCode inspect_file(const InspectOptions& options) {
  std::vector<SafetensorsFile> files;
  files.push_back(SafetensorsFile::open(options.model));
  InspectReport report;
  report.name = options.model;
  report.files = &files;
  return print_report(report, options);
}

/// Counts the matrices of each quantized type, and lists the modules that stayed plain.
void add_weight_types(InspectReport& report, const DecoderWeights& weights) {
  const auto add = [&](const std::string& prefix, const Linear& linear) {
    for (const LinearPart& part : linear.parts) {
      if (part.weight.is_packed()) {
        ++report.quantized_types[type_text(part.weight.packed().shape)];
      } else {
        report.plain_modules.push_back(prefix + part.name);
      }
    }
  };
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const DecoderLayer& layer = weights.layers[i];
    const std::string prefix = fmt::format("layers.{}.", i);
    for (const Linear* linear :
         {&layer.qkv_proj, &layer.o_proj, &layer.gate_up_proj, &layer.down_proj}) {
      add(prefix, *linear);
    }
    if (!layer.moe) continue;
    add(prefix, layer.moe->gate);
    for (size_t e = 0; e < layer.moe->experts.size(); ++e) {
      const std::string expert = fmt::format("{}experts.{}.", prefix, e);
      add(expert, layer.moe->experts[e].gate_up_proj);
      add(expert, layer.moe->experts[e].down_proj);
    }
  }
  add("", weights.lm_head);
}

ExitCode inspect_folder(const InspectOptions& options) {
  const fs::path dir = resolve_model_dir(options.model);
  const ModelConfig config = load_model_config(dir);
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(dir));
  // Compares every tensor's name, type and shape with the config.
  const DecoderWeights weights = load_weights(config, checkpoint, Log());

  InspectReport report;
  add_weight_types(report, weights);
  report.name = dir.string();
  report.files = &checkpoint->files();
  report.config = config;
  report.eos_token_ids =
      union_of_ids(load_generation_config(dir).eos_token_ids, config.eos_token_ids);
  if (const fs::path tokenizer = dir / "tokenizer.json"; is_listed(tokenizer)) {
    report.tokenizer_ids = Tokenizer::load(tokenizer).num_ids();
  }
  return print_report(report, options);
}

ExitCode inspect_devices(const InspectOptions& options) {
  if (!options.model.empty() || options.check) {
    refuse("--devices is about this machine: leave out MODEL and --check");
  }
  CudaSystem cuda = find_cuda();
  for (CudaDevice& device : cuda.devices) open_cuda_device(device);
  write_stdout(options.json ? devices_json(cuda) : devices_table(cuda));
  return ExitCode::kOk;
}

}  // namespace

Action add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  refuse_empty(app.add_option("MODEL", options->model,
                              "Model folder, hub id Owner/Name in the Hugging Face cache, or one "
                              ".safetensors file (default: $LLM_MODEL, else the built-in model)"))
      ->type_name("MODEL");
  app.add_flag("--check", options->check,
               "Read every byte; NaN and infinite weights, and ids without an embedding, are "
               "findings (exit code 2)");
  app.add_flag("--devices", options->devices,
               "Say where a model can run on this machine, and what a GPU lacks; needs no MODEL");
  app.add_flag("--json", options->json, "Print one JSON object instead of the table");
  app.footer("llm inspect --check DIR");
  return [options] {
    if (options->devices) return inspect_devices(*options);
    options->model = chosen_model(options->model, Log());
    const fs::path path = options->model;
    std::error_code ec;
    const bool is_file = path.extension() == ".safetensors" && !fs::is_directory(path, ec);
    return is_file ? inspect_file(*options) : inspect_folder(*options);
  };
}

}  // namespace llm
