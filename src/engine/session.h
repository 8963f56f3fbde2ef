// Opens a model: first the small files that decide whether a request can run at all, then the
// weights, the device and the decoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "io/generation_config.h"
#include "model/decoder.h"
#include "model/model_config.h"
#include "text/tokenizer.h"

namespace llm {

/// Where the model comes from: a checkpoint folder or hub id, or a config with random weights.
struct ModelChoice {
  std::string model;           // folder or name; empty: chosen_model(), unless config is given
  std::string config;          // name or config.json, with random_weights
  std::string random_weights;  // their type ("bf16"); empty: none
  std::string tokenizer;       // folder or tokenizer.json; empty: the model's own, if any
};

/// kAuto: a GPU if one is there and has the memory, else the CPU.
enum class Device { kAuto, kCpu, kCuda, kShape };

struct DeviceChoice {
  Device device = Device::kCpu;
  int cuda_index = 0;
  CudaDevice gpu = {};     // kCuda: as settle_device() found it
  bool invariant = false;  // as CudaOptions
  CudaTuning tuning = {};
  std::optional<int64_t> threads;  // default: allowed_threads()
  std::optional<ActDType> act;     // default: the instruction set's
  std::optional<DType> kv_dtype;   // of kKvDTypes; default: BF16, or F32 if act is given as F32

  DType cache_dtype() const;
};

/// What a model's small files say.
struct ModelFiles {
  std::filesystem::path dir;  // empty without a checkpoint
  std::string name;           // for messages and reports
  ModelConfig config;
  GenerationConfig generation;
  std::optional<Tokenizer> tokenizer;
  std::filesystem::path tokenizer_dir;  // where its configuration and chat template are
  std::vector<int32_t> stop_ids;        // union of what all configurations call eos, ascending

  /// Ids that can be generated: those that have a token, or all where there is no tokenizer.
  int64_t num_ids() const;
};

/// Reads the small files. Refuses (exit code 2) a model that isn't there or a file that can't be
/// used.
/// The shape device needs no weights, so a bare config will do.
ModelFiles open_model(const ModelChoice& choice, Device device, const Log& log);

/// Decides where to compute: kAuto becomes kCuda or kCpu, and what was decided is said. Refuses
/// (exit code 2) a GPU that isn't there, can't be used, or lacks the memory for the weights, and
/// types that it can't compute with.
void settle_device(DeviceChoice& choice, const ModelFiles& files, const Log& log);

/// Refuses (exit code 2) another model, given with `flag`, whose tokens aren't those of the first,
/// naming an id that differs. Tokens are compared, not sizes: embeddings are padded to different
/// ones.
void refuse_other_vocabulary(const std::string& flag, const ModelFiles& model,
                             const ModelFiles& other);

/// Weights on a device, ready to run.
class LoadedModel {
 public:
  /// `weights_seed` is for random weights. max_positions as in Decoder.
  LoadedModel(const ModelFiles& files, const ModelChoice& choice, const DeviceChoice& device,
              uint64_t weights_seed, int64_t max_positions, const Log& log);

  /// A smaller model of the same vocabulary on the same device, loaded by the first call. Refuses
  /// (exit code 2) one whose tokenizer is another, naming an id that differs, or whose context is
  /// too short.
  Decoder& load_draft(const std::string& name, const ModelFiles& target, int64_t max_positions,
                      const Log& log);

  ThreadPool& pool() { return *pool_; }
  Backend& backend() { return *backend_; }
  Decoder& decoder() { return *decoder_; }

 private:
  Device device_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Decoder> draft_;
};

/// The largest steps that are going to be asked for.
struct StepSize {
  int64_t rows = 528;
  int64_t logits = 16;  // rows of logits
};

/// Bytes of the device's memory that the model's weights and steps leave to keys and values;
/// unlimited where nothing is computed. On the CPU, where the weights take nearly all, an eighth:
/// they are mapped from their file, so the system can drop and read parts of them again.
/// A draft's weights lie beside the model's on a GPU, where this refuses (exit code 2) steps that
/// leave nothing.
int64_t memory_for_cache(const ModelFiles& files, const DeviceChoice& device, const StepSize& step,
                         const ModelConfig* draft = nullptr);

/// Refuses (exit code 2) a draft that can't be computed on the chosen GPU, or doesn't fit beside
/// the model.
void refuse_unfit_draft(const std::string& name, const ModelConfig& draft, const ModelFiles& files,
                        const DeviceChoice& device);

/// Bytes of keys and values of one token, all layers, with the scales of an 8-bit type.
int64_t kv_bytes_per_token(const ModelConfig& config, DType dtype);

}  // namespace llm
