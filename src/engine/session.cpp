#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/shape/shape_backend.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/files.h"
#include "base/progress_line.h"
#include "base/size_text.h"
#include "engine/memory.h"
#include "io/json.h"
#include "io/model_dir.h"
#include "io/model_list.h"
#include "io/safetensors.h"
#include "model/weights.h"

namespace llm {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

std::string join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

/// Before anyone downloads it.
void refuse_unloadable(const std::string& name) {
  const ListedModel* listed = find_listed_model(name);
  if (listed == nullptr || can_load(listed->model_type, listed->quant_method)) return;
  refuse("{} can't be run yet ({}{})", name, listed->model_type,
         listed->quant_method.empty() ? "" : ", quant_method " + listed->quant_method);
}

/// --config: a name that is compiled in, or a config.json.
ModelConfig config_for(const std::string& name_or_path) {
  if (auto config = named_model_config(name_or_path)) return *config;
  const std::filesystem::path path = name_or_path;
  if (is_folder(path)) return load_model_config(path);
  if (!is_listed(path)) {
    refuse("--config {}: no such file, and no config of that name is known (known: {})",
           name_or_path, join(model_config_names()));
  }
  return parse_model_config(read_text_file(path, kMaxConfigBytes), path.string());
}

std::filesystem::path tokenizer_file(const std::filesystem::path& dir_or_file) {
  return is_folder(dir_or_file) ? dir_or_file / "tokenizer.json" : dir_or_file;
}

/// The ids that tokenizer_config.json calls eos: a token's text, bare or in an object.
std::vector<int32_t> tokenizer_eos_ids(const std::filesystem::path& dir,
                                       const Tokenizer& tokenizer) {
  const std::filesystem::path path = dir / "tokenizer_config.json";
  if (!is_listed(path)) return {};
  const JsonValue config = read_json_file(path);
  const JsonValue* eos = config.find_set("eos_token");
  if (eos != nullptr && eos->is_object()) eos = eos->find_set("content");
  if (eos == nullptr || !eos->is_string()) return {};
  const std::optional<int32_t> id = tokenizer.id_of(eos->string);
  return id ? std::vector<int32_t>{*id} : std::vector<int32_t>{};
}

void load_tokenizer(ModelFiles& files, const std::string& given) {
  std::filesystem::path place = given.empty() ? files.dir : std::filesystem::path(given);
  if (!given.empty() && !is_listed(place)) place = resolve_model_dir(given, "tokenizer.json");
  if (place.empty()) return;
  const std::filesystem::path file = tokenizer_file(place);
  if (given.empty() && !is_listed(file)) return;
  files.tokenizer = Tokenizer::load(file);
  files.tokenizer_dir = file.parent_path();
  files.stop_ids =
      union_of_ids(files.stop_ids, tokenizer_eos_ids(files.tokenizer_dir, *files.tokenizer));
}

/// As BF16, the type that nearly all checkpoints have.
int64_t weight_bytes(const ModelConfig& config) {
  return config.num_parameters() * bits_of(DType::kBF16) / 8;
}

/// Device memory that such steps need beside weights and cache: operands and results of the rows,
/// their logits, workspaces of the products and of attention.
int64_t step_bytes(const ModelConfig& c, const StepSize& step) {
  constexpr int64_t kWorkspaces = int64_t{128} << 20;
  const int64_t floats = c.hidden_size + c.q_size() + 2 * c.kv_size() + 2 * c.intermediate_size;
  const int64_t halves = 2 * c.q_size() + c.hidden_size + 2 * c.intermediate_size;
  const int64_t logits = step.logits + std::min<int64_t>(step.logits, kCudaSampledAtOnce);
  return step.rows * (4 * floats + 2 * halves) + logits * 4 * c.vocab_size + kWorkspaces;
}

/// Why the GPU's kernels can't compute a model of this shape; empty if they can.
std::string shape_problem(const ModelConfig& c) {
  const auto odd = [](const char* what, int64_t size) {
    return size % kCudaWidthMultiple == 0
               ? std::string()
               : fmt::format("{} is {}, but has to be a multiple of {} there", what, size,
                             kCudaWidthMultiple);
  };
  if (c.quantization) {
    return fmt::format("its weights are quantized ({}), which only the CPU computes",
                       name_of(c.quantization->method));
  }
  if (c.moe) return "it is a mixture of experts, which only the CPU computes";
  const int64_t group = c.num_attention_heads / c.num_key_value_heads;
  if (group > kCudaMaxGroup) {
    return fmt::format(
        "it has {} attention heads for each KV head, but at most {} are computed there", group,
        kCudaMaxGroup);
  }
  if (c.head_dim > kCudaMaxHeadDim) {
    return fmt::format("head_dim is {}, but can be at most {} there", c.head_dim, kCudaMaxHeadDim);
  }
  for (const std::string& problem : {odd("hidden_size", c.hidden_size), odd("head_dim", c.head_dim),
                                     odd("intermediate_size", c.intermediate_size)}) {
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string label_of(const CudaDevice& device) {
  return fmt::format("cuda:{} ({}, {})", device.index, device.name, device.architecture);
}

/// Why this model can't be computed on this GPU; empty if it can.
std::string model_problem(const std::string& name, const ModelConfig& config,
                          const CudaDevice& device) {
  if (const std::string problem = shape_problem(config); !problem.empty()) {
    return fmt::format("{}: {}", name, problem);
  }
  const int64_t steps = step_bytes(config, {});
  if (weight_bytes(config) + steps <= device.free_bytes) return {};
  return fmt::format("{} needs {} for its weights and {} for its steps, but {} has {} free", name,
                     size_text(weight_bytes(config)), size_text(steps), label_of(device),
                     size_text(device.free_bytes));
}

/// The GPU that was asked for.
CudaDevice required_gpu(const DeviceChoice& choice) {
  const CudaSystem system = find_cuda();
  if (system.devices.empty()) {
    refuse("--device cuda:{}: {} (or use --device cpu)", choice.cuda_index, system.problem);
  }
  if (choice.cuda_index >= std::ssize(system.devices)) {
    refuse("--device cuda:{}: there {}", choice.cuda_index,
           system.devices.size() == 1
               ? std::string("is only cuda:0")
               : fmt::format("are cuda:0 to cuda:{}", system.devices.size() - 1));
  }
  CudaDevice device = system.devices[static_cast<size_t>(choice.cuda_index)];
  open_cuda_device(device);
  if (!device.problem.empty()) {
    refuse("--device cuda:{}: {} (or use --device cpu)", device.index, device.problem);
  }
  return device;
}

void refuse_unfit_model(const ModelFiles& files, const CudaDevice& device) {
  const std::string problem = model_problem(files.name, files.config, device);
  if (problem.empty()) return;
  refuse("--device cuda:{}: {}: choose another model, or use --device cpu", device.index, problem);
}

/// The first GPU that can be used and holds the weights.
std::optional<CudaDevice> fitting_gpu(const ModelFiles& files, const Log& log) {
  CudaSystem system = find_cuda();
  if (system.devices.empty()) {
    const std::string why = fmt::format("computing on the CPU: {}", system.problem);
    system.driver.empty() ? log.detail("{}", why) : log.warn("{}", why);
  }
  for (CudaDevice& device : system.devices) {
    open_cuda_device(device);
    const std::string problem =
        !device.problem.empty() ? device.problem : model_problem(files.name, files.config, device);
    if (problem.empty()) return device;
    log.warn("cuda:{} isn't used: {}", device.index, problem);
  }
  return std::nullopt;
}

/// Float32 operands and caches are for the CPU only.
bool asks_for_f32(const DeviceChoice& choice) {
  return choice.act == ActDType::kF32 || choice.kv_dtype == DType::kF32;
}

void require_memory_for_weights(const ModelFiles& files) {
  const int64_t needed = weight_bytes(files.config);
  const int64_t available = available_memory();
  if (needed <= available) return;
  refuse(
      "{} needs {} for its weights, but {} are available: choose a smaller config, or --device "
      "shape for its shapes alone",
      files.name, size_text(needed), size_text(available));
}

DecoderWeights weights_for(const ModelFiles& files, const ModelChoice& choice, Device device,
                           uint64_t seed, ThreadPool& pool, const Log& log) {
  if (device == Device::kShape) return shape_weights(files.config);
  if (!choice.random_weights.empty()) {
    require_memory_for_weights(files);
    return random_weights(files.config, seed, pool);
  }
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(files.dir));
  return load_weights(files.config, std::move(checkpoint), log);
}

void place_with_progress(DecoderWeights& weights, Backend& backend, ThreadPool& pool,
                         const Log& log) {
  ProgressLine line(log.verbosity() != Verbosity::kQuiet);
  place_weights(weights, backend, pool, [&](int64_t bytes) {
    line.show(fmt::format("loading {} of {}", size_text(bytes), size_text(weights.bytes)));
  });
}

std::unique_ptr<Backend> make_backend(ThreadPool& pool, const DeviceChoice& device) {
  switch (device.device) {
    case Device::kShape:
      return make_shape_backend();
    case Device::kCuda:
      return make_cuda_backend(
          pool,
          {.device = device.cuda_index, .invariant = device.invariant, .tuning = device.tuning});
    default: {
      const Isa isa = choose_isa();
      return make_cpu_backend(pool, device.act.value_or(default_act(isa)), isa);
    }
  }
}

}  // namespace

DType DeviceChoice::cache_dtype() const {
  if (kv_dtype) return *kv_dtype;
  return act == ActDType::kF32 ? DType::kF32 : DType::kBF16;
}

int64_t ModelFiles::num_ids() const {
  return tokenizer ? std::min<int64_t>(tokenizer->num_ids(), config.vocab_size) : config.vocab_size;
}

void refuse_unfit_draft(const std::string& name, const ModelConfig& draft, const ModelFiles& files,
                        const DeviceChoice& device) {
  if (device.device != Device::kCuda) return;
  if (const std::string problem = shape_problem(draft); !problem.empty()) {
    refuse("--draft {}: {}: choose another, or use --device cpu", name, problem);
  }
  const int64_t both = weight_bytes(files.config) + weight_bytes(draft);
  if (both + step_bytes(files.config, {}) < device.gpu.free_bytes) return;
  refuse(
      "--draft {} needs {} for its weights, which {} leaves no room for on the GPU: choose a "
      "smaller one, or use --device cpu",
      name, size_text(weight_bytes(draft)), files.name);
}

void settle_device(DeviceChoice& choice, const ModelFiles& files, const Log& log) {
  if (choice.device == Device::kAuto) {
    std::optional<CudaDevice> gpu;
    if (asks_for_f32(choice)) {
      log.detail("computing on the CPU, where float32 is");
    } else {
      gpu = fitting_gpu(files, log);
    }
    choice.device = gpu ? Device::kCuda : Device::kCpu;
    if (gpu) choice.gpu = *gpu;
    choice.cuda_index = choice.gpu.index;
  } else if (choice.device == Device::kCuda) {
    if (asks_for_f32(choice)) {
      refuse("--device cuda computes with BF16 operands: leave out {}, or use --device cpu",
             choice.act == ActDType::kF32 ? "--act f32" : "--kv-dtype f32");
    }
    choice.gpu = required_gpu(choice);
    refuse_unfit_model(files, choice.gpu);
  }
  if (choice.device == Device::kCuda) {
    log.info("{}: {} of weights, {} free", label_of(choice.gpu),
             size_text(weight_bytes(files.config)), size_text(choice.gpu.free_bytes));
  } else if (choice.invariant) {
    log.info("--invariant: on the CPU that always holds");
  }
}

ModelFiles open_model(const ModelChoice& choice, Device device, const Log& log) {
  if (!choice.random_weights.empty() && choice.random_weights != "bf16") {
    refuse("--random-weights={}: expected bf16", choice.random_weights);
  }
  ModelFiles files;
  if (!choice.config.empty()) {
    if (!choice.model.empty()) refuse("-m and --config both name a model: give one of them");
    if (choice.random_weights.empty() && device != Device::kShape) {
      refuse("--config {} has no weights: add --random-weights", choice.config);
    }
    files.name = choice.config;
    files.config = config_for(choice.config);
  } else {
    if (!choice.random_weights.empty()) refuse("--random-weights needs --config NAME|FILE");
    files.name = chosen_model(choice.model, log);
    if (!is_folder(files.name)) refuse_unloadable(files.name);
    files.dir = resolve_model_dir(files.name);
    files.config = load_model_config(files.dir);
    files.generation = load_generation_config(files.dir);
    if (!files.generation.ignored.empty()) {
      log.warn("{}: not supported and ignored: {}", (files.dir / "generation_config.json").string(),
               join(files.generation.ignored));
    }
  }
  files.stop_ids = union_of_ids(files.config.eos_token_ids, files.generation.eos_token_ids);
  load_tokenizer(files, choice.tokenizer);
  return files;
}

void refuse_other_vocabulary(const std::string& flag, const ModelFiles& model,
                             const ModelFiles& other) {
  if (!model.tokenizer || !other.tokenizer) {
    refuse("{} {}: {} has no tokenizer to compare", flag, other.name,
           model.tokenizer ? other.name : model.name);
  }
  const Tokenizer& a = *model.tokenizer;
  const Tokenizer& b = *other.tokenizer;
  for (int32_t id = 0; id < std::max(a.num_ids(), b.num_ids()); ++id) {
    if (a.has_token(id) == b.has_token(id) && a.bytes_of(id) == b.bytes_of(id)) continue;
    refuse("{} {}: its tokenizer is another: id {} is {} there, but {} in {}", flag, other.name, id,
           json_quote(b.bytes_of(id)), json_quote(a.bytes_of(id)), model.name);
  }
}

LoadedModel::LoadedModel(const ModelFiles& files, const ModelChoice& choice,
                         const DeviceChoice& device, uint64_t weights_seed, int64_t max_positions,
                         const Log& log)
    : device_(device.device) {
  LLM_CHECK(device_ != Device::kAuto, "settle_device() comes first");
  const int64_t threads = device.threads.value_or(allowed_threads());
  pool_ = std::make_unique<ThreadPool>(device_ == Device::kShape ? 1 : static_cast<int>(threads));
  backend_ = make_backend(*pool_, device);
  DecoderWeights weights = weights_for(files, choice, device_, weights_seed, *pool_, log);
  place_with_progress(weights, *backend_, *pool_, log);
  decoder_ = std::make_unique<Decoder>(files.config, std::move(weights), *backend_, max_positions);
}

Decoder& LoadedModel::load_draft(const std::string& name, const ModelFiles& target,
                                 int64_t max_positions, const Log& log) {
  if (draft_ != nullptr) return *draft_;
  const ModelChoice choice{.model = name, .config = {}, .random_weights = {}, .tokenizer = {}};
  const ModelFiles files = open_model(choice, device_, log);
  refuse_other_vocabulary("--draft", target, files);
  if (files.config.max_position_embeddings < max_positions) {
    refuse("--draft {}: its context holds {} tokens, less than the {} here: give --ctx {}", name,
           files.config.max_position_embeddings, max_positions,
           files.config.max_position_embeddings);
  }
  DecoderWeights weights = weights_for(files, choice, device_, 0, *pool_, log);
  place_with_progress(weights, *backend_, *pool_, log);
  draft_ = std::make_unique<Decoder>(files.config, std::move(weights), *backend_, max_positions);
  return *draft_;
}

int64_t memory_for_cache(const ModelFiles& files, const DeviceChoice& device, const StepSize& step,
                         const ModelConfig* draft) {
  constexpr int64_t kLeastShare = 8;
  if (device.device == Device::kShape) return kUnlimitedMemory;
  if (device.device == Device::kCuda) {
    refuse_unfit_model(files, device.gpu);  // a second model beside the one it was chosen for
    const int64_t weights =
        weight_bytes(files.config) + (draft == nullptr ? 0 : weight_bytes(*draft));
    const int64_t steps = step_bytes(files.config, step);
    if (weights + steps >= device.gpu.free_bytes) {
      refuse(
          "steps of {} rows, {} of them with logits, need {} beside {} of weights, but {} has {} "
          "free: lower --max-num-batched-tokens or --max-num-seqs, or use --device cpu",
          step.rows, step.logits, size_text(steps), size_text(weights), label_of(device.gpu),
          size_text(device.gpu.free_bytes));
    }
    return device.gpu.free_bytes - weights - steps;
  }
  const int64_t available = available_memory();
  return std::max(available / kLeastShare, available - weight_bytes(files.config));
}

int64_t kv_bytes_per_token(const ModelConfig& config, DType dtype) {
  const KvCacheSpec one_block{.num_layers = config.num_hidden_layers,
                              .num_blocks = 1,
                              .num_key_value_heads = config.num_key_value_heads,
                              .head_dim = config.head_dim,
                              .dtype = dtype};
  return one_block.total_bytes() / kKvBlockSize;
}

}  // namespace llm
