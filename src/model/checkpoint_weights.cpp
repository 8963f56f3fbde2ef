// A decoder's weights from a checkpoint: every name, dtype and shape compared with what the config
// implies before anything is used.
#include <cstring>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "model/quantized_module.h"
#include "model/weight_source.h"

namespace llm {
namespace {

constexpr const char* kEmbedName = "model.embed_tokens.weight";
constexpr const char* kHeadName = "lm_head.weight";

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool is_plain_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

bool same_bytes(const ConstTensor& a, const ConstTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

class CheckpointSource : public WeightSource {
 public:
  CheckpointSource(const ModelConfig& config, const Checkpoint& checkpoint, const Log& log)
      : architecture_(config.architecture),
        quantization_(config.quantization),
        checkpoint_(checkpoint),
        vectors_(num_vector_values(config)),
        log_(log) {}

  Matrix matrix(const std::string& module, int64_t rows, int64_t cols) override {
    const std::optional<QuantizedModule> quantized =
        quantized_module(checkpoint_, quantization_, module, rows, cols);
    if (!quantized) return {plain(module, rows, cols), nullptr};
    used_.insert(quantized->tensors.begin(), quantized->tensors.end());
    bytes_ += quantized->matrix->shape.bytes();
    PackedMatrix slot;
    slot.shape = quantized->matrix->shape;
    return {slot, quantized->matrix};
  }

  const float* vector(const std::string& name, int64_t size) override {
    const ConstTensor stored = checked(name, Shape{size});
    float* values = vectors_.take(size);
    widen(values, stored.data, stored.dtype, size);
    return values;
  }

  /// As transformers 5 ties: a stored head that differs is used, a head alone serves both ends.
  Embeddings embeddings(int64_t vocab_size, int64_t hidden_size, bool tied) override {
    if (!tied) {
      return {matrix(kEmbedModule, vocab_size, hidden_size),
              matrix(kHeadModule, vocab_size, hidden_size)};
    }
    const bool has_table = checkpoint_.contains(kEmbedName);
    const bool has_head = checkpoint_.contains(kHeadName);
    if (!has_head || !has_table) {
      const Matrix both = matrix(has_head ? kHeadModule : kEmbedModule, vocab_size, hidden_size);
      return {both, both, true};
    }
    const ConstTensor table = plain(kEmbedModule, vocab_size, hidden_size);
    const int64_t bytes = bytes_;
    const ConstTensor head = plain(kHeadModule, vocab_size, hidden_size);
    if (same_bytes(table, head)) {
      bytes_ = bytes;  // a copy that is never read again
      return {{table, nullptr}, {table, nullptr}, true};
    }
    log_.warn(
        "{}: config.json ties the head to the embedding, but {} is stored and differs: the stored "
        "head is used",
        checkpoint_.file_of(kHeadName).string(), kHeadName);
    return {{table, nullptr}, {head, nullptr}, false};
  }

  int64_t bytes() const { return bytes_; }
  std::shared_ptr<const void> storage() const { return vectors_.storage(); }

  /// Refuses a weight inside one of the decoder's layers that nothing asked for: the model would
  /// compute without it. One warning for all others.
  void report_unused() const {
    int64_t count = 0;
    std::string first;
    for (const std::string& name : checkpoint_.names()) {
      // Old checkpoints store the rotary frequencies, which follow from the config.
      if (used_.count(name) != 0 || ends_with(name, "rotary_emb.inv_freq")) continue;
      if (name.starts_with("model.layers.")) {
        refuse(
            "{}: tensor \"{}\" has no place in {} as config.json describes it: is "
            "\"architectures\" right?",
            checkpoint_.file_of(name).string(), printable(name), name_of(architecture_));
      }
      if (count++ == 0) first = name;
    }
    if (count > 0) {
      log_.warn("{}: {} of the checkpoint's tensors not used: \"{}\"{}",
                checkpoint_.file_of(first).string(), count, printable(first),
                count > 1 ? " is the first" : "");
    }
  }

 private:
  ConstTensor plain(const std::string& module, int64_t rows, int64_t cols) {
    return checked(module + ".weight", Shape{rows, cols});
  }

  ConstTensor checked(const std::string& name, const Shape& expected) {
    if (!checkpoint_.contains(name)) refuse_missing(name, expected);
    const ConstTensor tensor = checkpoint_.tensor(name);
    const std::string file = checkpoint_.file_of(name).string();
    if (!is_plain_dtype(tensor.dtype)) {
      refuse("{}: tensor \"{}\" is {}, expected F32, F16 or BF16", file, name,
             name_of(tensor.dtype));
    }
    if (!(tensor.shape == expected)) {
      refuse("{}: tensor \"{}\" has shape {}, but config.json implies {}", file, name,
             to_string(tensor.shape), to_string(expected));
    }
    used_.insert(name);
    bytes_ += tensor.bytes();
    return tensor;
  }

  [[noreturn]] void refuse_missing(const std::string& name, const Shape& expected) const {
    const std::string folder = checkpoint_.files().front().path().parent_path().string();
    if (name == kHeadName) {
      refuse(
          "{}: tensor \"{}\" {} is missing, and config.json doesn't tie it to the embedding "
          "(\"tie_word_embeddings\" is not true)",
          folder, name, to_string(expected));
    }
    refuse("{}: tensor \"{}\" {} is missing; config.json implies it", folder, name,
           to_string(expected));
  }

  Architecture architecture_;
  std::optional<QuantConfig> quantization_;
  const Checkpoint& checkpoint_;
  FloatStore vectors_;
  const Log& log_;
  std::set<std::string, std::less<>> used_;
  int64_t bytes_ = 0;
};

}  // namespace

DecoderWeights load_weights(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint,
                            const Log& log) {
  CheckpointSource source(config, *checkpoint, log);
  DecoderWeights weights = assemble_weights(config, source);
  source.report_unused();
  if (config.quantization && config.quantization->rounds_activations) {
    log.detail("8-bit weights are used as they are, activations aren't rounded to 8 bits");
  }
  weights.bytes = source.bytes();
  weights.mapped = true;
  weights.storage = {std::move(checkpoint), source.storage()};
  return weights;
}

}  // namespace llm
