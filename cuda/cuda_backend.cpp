// The operations on a GPU. Rows come in two classes, whatever their number: those that decode or
// verify go through kernels whose sums never depend on other rows, the rows of prompts through
// cuBLASLt and FlashAttention; with `invariant` all rows are of the first class.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda.h"
#include "base/error.h"
#include "cuda/gemm_cublaslt.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/sampler.h"
#include "cuda/step_arrays.h"
#include "cuda/step_graphs.h"
#include "cuda/weight_upload.h"

namespace llm {
namespace {

// Rows of a step that is recorded as a graph.
constexpr int64_t kMaxGraphRows = 256;
// Of the weights that attention brings into L2, if it is to.
constexpr int64_t kMaxPrefetchBytes = int64_t{16} << 20;
// Rows of prompts that one product takes: bounds the workspace.
constexpr int64_t kMaxLargeRows = 2048;
// Partial results of attention that are in memory at a time.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

static_assert(kMaxSmallRows == kCudaRowsAtOnce && kMaxFusedNormRows == kCudaFusedNormRows);

/// Consecutive rows of one class.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool few = true;  // through the product for few rows
};

/// Where a product's operand comes from: BF16 rows, or float32 rows that are normed first.
struct Operand {
  const bf16* x = nullptr;
  NormedRows normed;
};

/// The operand without its first `rows` rows.
Operand skip(Operand in, int64_t rows, int64_t width) {
  if (in.x != nullptr) {
    in.x += rows * width;
  } else if (in.normed.row_indices != nullptr) {
    in.normed.row_indices += rows;
  } else {
    in.normed.hidden += rows * width;
  }
  return in;
}

KvType kv_type_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return KvType::kBF16;
    case DType::kF8E4M3:
      return KvType::kF8E4M3;
    case DType::kI8:
      return KvType::kI8;
    default:
      fail("a cache of {} is for the CPU only", kv_dtype_name(dtype));
  }
}

LinearWeights weights_of(const Linear& linear) {
  const LinearPart& first = linear.parts[0];
  return {reinterpret_cast<const bf16*>(first.weight.plain().data), first.bias,
          static_cast<int>(linear.n()), static_cast<int>(linear.k)};
}

/// Of one row of a product's result: n / 2 BF16 for kSiluMul, else n float32.
int64_t out_row_bytes(Epilogue epilogue, const Linear& linear) {
  return epilogue == Epilogue::kSiluMul ? linear.n() / 2 * 2 : linear.n() * 4;
}

class CudaBackend : public Backend {
 public:
  CudaBackend(ThreadPool& pool, const CudaOptions& options) : pool_(&pool), options_(options) {
    use_device();
    cudaDeviceProp properties{};
    LLM_CUDA(cudaGetDeviceProperties(&properties, options_.device));
    isa_ = fmt::format("sm_{}{}", properties.major, properties.minor);
    hardware_ = properties.name;
    stream_ = make_stream();
    arrays_ = std::make_unique<StepArrays>();
    sampler_ = std::make_unique<Sampler>();
    if (!options_.invariant) cublaslt_ = CublasLtGemm::create();
  }

  std::string_view name() const override { return "cuda"; }
  std::string isa() const override { return isa_; }
  ActDType act() const override { return ActDType::kBF16; }
  std::string hardware() const override { return hardware_; }
  bool is_invariant() const override { return options_.invariant; }
  DType operand_dtype() const override { return DType::kBF16; }
  bool runs_ahead() const override { return true; }
  std::span<const SampledId> sampled(SampleTicket ticket) override { return sampler_->ids(ticket); }
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) override {
    return sampler_->logprobs(ticket);
  }

  // ---- Memory ----

  DeviceMemory allocate(int64_t bytes) override {
    use_device();
    graphs_.clear();
    product_orders_.clear();
    DeviceMemory memory = uninitialized_device_memory(bytes);
    if (bytes > 0) {
      LLM_CUDA(cudaMemsetAsync(memory.data(), 0, static_cast<size_t>(bytes), stream()));
    }
    return memory;
  }

  void write(std::byte* to, std::span<const std::byte> from) override {
    use_device();
    LLM_CUDA(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream()));
    finish();
  }

  ConstTensor to_host(ConstTensor tensor) override {
    use_device();
    std::byte* host = host_copy_.reserve(std::max<int64_t>(1, tensor.bytes()));
    LLM_CUDA(cudaMemcpyAsync(host, tensor.data, static_cast<size_t>(tensor.bytes()),
                             cudaMemcpyDeviceToHost, stream()));
    finish();
    return {host, tensor.dtype, tensor.shape};
  }

  /// Steps that only decode are padded, so that few graphs serve them all.
  int64_t padded_rows(int64_t rows) const override {
    return rows <= kMaxGraphRows ? padded_step_rows(rows) : rows;
  }

  void finish() override {
    if (upload_) upload_->finish();
    upload_.reset();
    LLM_CUDA(cudaStreamSynchronize(stream()));
  }

  // ---- Weights ----

  bool copies_weights() const override { return true; }

  void place(Embedding& table) override {
    const ConstTensor host = table.weight.plain();
    std::byte* to = new_weights(host.shape.num_elements() * 2);
    upload().bf16(to, host);
    table.weight = ConstTensor{to, DType::kBF16, host.shape};
  }

  void place(Norm& norm) override {
    float* to = reinterpret_cast<float*>(new_weights(norm.size * 4));
    upload().f32(reinterpret_cast<std::byte*>(to), norm.weight, norm.size);
    norm.weight = to;
  }

  /// The parts become one matrix, row by row.
  void place(Linear& linear) override {
    LLM_CHECK(linear.k % kCudaWidthMultiple == 0, "{} takes {}", linear.name, linear.k);
    place_bias(linear);
    std::byte* to = new_weights(linear.n() * linear.k * 2);
    for (LinearPart& part : linear.parts) {
      const ConstTensor host = part.weight.plain();
      upload().bf16(to, host);
      part.weight = ConstTensor{to, DType::kBF16, host.shape};
      to += part.weight.bytes();
    }
  }

 protected:
  // ---- The operations ----

  void do_begin_step(const Batch& batch, const AttentionParams& params,
                     const KvCache& cache) override {
    use_device();
    const int64_t group = params.num_attention_heads / params.num_key_value_heads;
    LLM_CHECK(group <= kCudaMaxGroup && params.head_dim <= kCudaMaxHeadDim &&
              params.head_dim % kCudaWidthMultiple == 0);
    const int64_t tokens = batch.num_tokens();
    const bool only_decodes = batch.num_decode_rows == tokens && batch.num_logits() == tokens;
    uses_graph_ =
        options_.tuning.graphs && !is_observed() && only_decodes && tokens <= kMaxGraphRows;
    const std::byte* place = arrays_->place();
    const SampledId* sampled = sampler_->sampled();
    arrays_->upload(batch, uses_graph_ ? StepShape::of_decode(batch) : StepShape::exact(batch),
                    static_cast<int>(kCudaMaxGroup / group), options_.invariant, stream());
    sampler_->reserve(batch.num_logits(), stream());
    if (arrays_->place() != place || sampler_->sampled() != sampled) graphs_.clear();
    products_ = &product_orders_[params.rope_cos];
    next_product_ = 0;
    const StepShape& shape = arrays_->shape;
    replays_ = uses_graph_ &&
               graphs_.begin({params.rope_cos, cache.layer(0).k, shape.rows, shape.max_blocks},
                             stream()) == StepGraphs::Mode::kReplay;
  }

  void do_embed(Tensor hidden, const Embedding& table, const Batch&) override {
    if (replays_) return;
    launch_embed(hidden.as<float>(), as_bf16(table.weight.plain()),
                 {arrays_->input_ids, sampler_->sampled(), arrays_->known_ids},
                 static_cast<int>(arrays_->shape.rows), static_cast<int>(table.weight.cols()),
                 queue());
  }

  void do_norm_qkv(Tensor qkv, ConstTensor hidden, const Norm& norm, const Linear& linear,
                   const Batch& batch) override {
    product(qkv.data, Epilogue::kStore, normed(hidden, norm), linear, batch);
  }

  void do_linear_add(Tensor hidden, ConstTensor x, const Linear& linear,
                     const Batch& batch) override {
    product(hidden.data, Epilogue::kAdd, {as_bf16(x), {}}, linear, batch);
  }

  void do_norm_gate_up_silu(Tensor out, ConstTensor hidden, const Norm& norm, const Linear& linear,
                            const Batch& batch) override {
    product(out.data, Epilogue::kSiluMul, normed(hidden, norm), linear, batch);
  }

  /// Refused when the model is opened.
  void do_norm_moe(Tensor, const Norm&, const Moe&, const Batch&) override {
    bug("norm_moe", "there are no experts on the GPU");
  }

  /// Rows whose logits are wanted are few, and a prompt's last row must not depend on what else
  /// the step holds.
  void do_norm_head(Tensor logits, ConstTensor hidden, const Norm& norm, const Linear& linear,
                    const Batch&) override {
    if (!replays_) {
      Operand in = normed(hidden, norm);
      in.normed.row_indices = arrays_->logits_indices;
      few_rows(logits.data, Epilogue::kStore, in, linear, arrays_->shape.logits);
    }
    if (uses_graph_) graphs_.end(stream());
  }

  void do_attention(Tensor out, ConstTensor qkv, const AttentionParams& params,
                    const KvCache& cache, const Batch& batch) override {
    if (replays_) return;
    const AttentionArgs args = attention_args(out, qkv, params, cache);
    if (arrays_->decode.num_tiles > 0) decode_attention(args, arrays_->decode, true);
    const int64_t first = batch.num_decode_rows;
    const int64_t count = batch.num_tokens() - first;
    if (count == 0) return;
    if (options_.invariant) {
      launch_kv_append(args, nullptr, static_cast<int>(first), static_cast<int>(count), queue());
      decode_attention(args, arrays_->prefill, false);
      return;
    }
    bf16* queries = reserve_as<bf16>(queries_, count * params.q_size());
    launch_kv_append(args, queries, static_cast<int>(first), static_cast<int>(count), queue());
    launch_prefill_attention(args, queries, static_cast<int>(first), arrays_->prefill.tiles,
                             arrays_->prefill.num_tiles, queue());
  }

  void do_sample(SampleTicket ticket, ConstTensor logits,
                 std::span<const SampleRow> rows) override {
    sampler_->sample(ticket, logits, rows, arrays_->known_ids, queue());
  }

 private:
  cudaStream_t stream() const { return stream_.get(); }
  /// The runtime's current device is the calling thread's own.
  void use_device() const { LLM_CUDA(cudaSetDevice(options_.device)); }
  Queue queue() const { return {stream(), options_.tuning.overlap}; }

  /// Memory for work that is asked for next.
  std::byte* reserve(Workspace& workspace, int64_t bytes, bool zeroed = false) {
    if (bytes > workspace.size()) graphs_.clear();  // they have the old memory's address
    return workspace.reserve(bytes, stream(), zeroed);
  }
  template <typename T>
  T* reserve_as(Workspace& workspace, int64_t count) {
    return reinterpret_cast<T*>(reserve(workspace, count * static_cast<int64_t>(sizeof(T))));
  }

  static const bf16* as_bf16(ConstTensor tensor) {
    LLM_CHECK(tensor.dtype == DType::kBF16, "tensor is {}", name_of(tensor.dtype));
    return reinterpret_cast<const bf16*>(tensor.data);
  }

  static Operand normed(ConstTensor hidden, const Norm& norm) {
    return {nullptr, {hidden.as<float>(), nullptr, norm.weight, norm.eps}};
  }

  AttentionArgs attention_args(Tensor out, ConstTensor qkv, const AttentionParams& params,
                               const KvCache& cache) const {
    const KvLayer layer = cache.layer(params.layer);
    AttentionArgs args;
    args.out = reinterpret_cast<bf16*>(out.data);
    args.qkv = qkv.as<float>();
    if (params.q_norm != nullptr) {
      args.q_norm = params.q_norm->weight;
      args.k_norm = params.k_norm->weight;
      args.norm_eps = params.q_norm->eps;
    }
    args.rope_cos = params.rope_cos;
    args.rope_sin = params.rope_sin;
    args.k_cache = layer.k;
    args.v_cache = layer.v;
    args.kv_type = kv_type_of(cache.spec().dtype);
    args.block_bytes = cache.spec().block_bytes();
    args.head_bytes = cache.spec().head_bytes();
    args.num_heads = static_cast<int>(params.num_attention_heads);
    args.num_kv_heads = static_cast<int>(params.num_key_value_heads);
    args.head_dim = static_cast<int>(params.head_dim);
    args.positions = arrays_->positions;
    args.slot_mapping = arrays_->slot_mapping;
    args.query_start_loc = arrays_->query_start_loc;
    args.seq_lens = arrays_->seq_lens;
    args.block_tables = arrays_->block_tables;
    args.max_blocks = static_cast<int>(arrays_->shape.max_blocks);
    return args;
  }

  WeightUpload& upload() {
    if (!upload_) upload_ = std::make_unique<WeightUpload>(*pool_);
    return *upload_;
  }

  std::byte* new_weights(int64_t bytes) {
    use_device();
    weights_.push_back(uninitialized_device_memory(bytes));
    return weights_.back().data();
  }

  void place_bias(Linear& linear) {
    const bool any = std::any_of(linear.parts.begin(), linear.parts.end(),
                                 [](const LinearPart& part) { return part.bias != nullptr; });
    if (!any) return;
    std::vector<float> values;
    for (const LinearPart& part : linear.parts) {
      const size_t rows = static_cast<size_t>(part.rows());
      if (part.bias == nullptr) {
        values.resize(values.size() + rows);
      } else {
        values.insert(values.end(), part.bias, part.bias + rows);
      }
    }
    float* bias = reinterpret_cast<float*>(new_weights(linear.n() * 4));
    upload().f32(reinterpret_cast<std::byte*>(bias), values.data(), linear.n());
    for (LinearPart& part : linear.parts) {
      part.bias = bias;
      bias += part.rows();
    }
  }

  std::array<RowRange, 2> classes(const Batch& batch) const {
    const int64_t tokens = arrays_->shape.rows;
    if (options_.invariant || uses_graph_) return {{{0, tokens, true}, {tokens, tokens, false}}};
    return {{{0, batch.num_decode_rows, true}, {batch.num_decode_rows, tokens, false}}};
  }

  /// out[T, n] (n / 2 for kSiluMul) from all rows of the batch.
  void product(std::byte* out, Epilogue epilogue, const Operand& in, const Linear& linear,
               const Batch& batch) {
    if (replays_) return;
    if (next_product_ == products_->size()) products_->push_back(weights_of(linear));
    ++next_product_;
    const int64_t row_bytes = out_row_bytes(epilogue, linear);
    for (const RowRange& rows : classes(batch)) {
      const int64_t count = rows.end - rows.begin;
      if (count == 0) continue;
      const Operand own = skip(in, rows.begin, linear.k);
      std::byte* to = out + rows.begin * row_bytes;
      if (rows.few) {
        few_rows(to, epilogue, own, linear, count);
      } else {
        many_rows(to, epilogue, own, linear, count);
      }
    }
  }

  void few_rows(std::byte* out, Epilogue epilogue, const Operand& in, const Linear& linear,
                int64_t count) {
    const LinearWeights weights = weights_of(linear);
    const int64_t row_bytes = out_row_bytes(epilogue, linear);
    std::byte* scratch = reserve(product_scratch_[{weights.n, weights.k}],
                                 static_cast<int64_t>(small_linear_scratch_bytes(weights)), true);
    for (int64_t begin = 0; begin < count; begin += kMaxSmallRows) {
      const int m = static_cast<int>(std::min<int64_t>(kMaxSmallRows, count - begin));
      const Operand own = skip(in, begin, linear.k);
      SmallOperand operand{own.x, own.normed};
      if (own.x == nullptr && m > fused_norm_rows(weights)) {
        operand = {norm_rows(own.normed, m, weights.k), {}};
      }
      launch_small_linear(out + begin * row_bytes, epilogue, operand, m, weights, scratch, queue());
    }
  }

  void many_rows(std::byte* out, Epilogue epilogue, const Operand& in, const Linear& linear,
                 int64_t count) {
    const LinearWeights weights = weights_of(linear);
    const bool gated = epilogue == Epilogue::kSiluMul;
    const int64_t row_bytes = out_row_bytes(epilogue, linear);
    for (int64_t begin = 0; begin < count; begin += kMaxLargeRows) {
      const int m = static_cast<int>(std::min(kMaxLargeRows, count - begin));
      const Operand own = skip(in, begin, linear.k);
      const bf16* x = own.x != nullptr ? own.x : norm_rows(own.normed, m, weights.k);
      std::byte* to = out + begin * row_bytes;
      if (!gated) {
        gemm(reinterpret_cast<float*>(to), epilogue, x, m, weights);
        continue;
      }
      float* gate_up = reserve_as<float>(gate_up_, int64_t{m} * weights.n);
      gemm(gate_up, Epilogue::kStore, x, m, weights);
      launch_silu_mul(reinterpret_cast<bf16*>(to), gate_up, m, weights.n / 2, queue());
    }
  }

  void gemm(float* out, Epilogue epilogue, const bf16* x, int m, const LinearWeights& weights) {
    if (cublaslt_ && cublaslt_->run(out, epilogue, x, m, weights, stream())) {
      if (weights.bias != nullptr) launch_add_bias(out, weights.bias, m, weights.n, queue());
      return;
    }
    launch_gemm(out, epilogue, x, m, weights, queue());
  }

  const bf16* norm_rows(const NormedRows& in, int rows, int width) {
    bf16* out = reserve_as<bf16>(normed_, int64_t{rows} * width);
    launch_rms_norm(out, in, rows, width, queue());
    return out;
  }

  /// Those of the two products that come next, as far as an earlier step has shown them.
  void add_next_weights(DecodeAttention& decode) const {
    int64_t left = kMaxPrefetchBytes;
    for (size_t i = 0; i < 2 && next_product_ + i < products_->size(); ++i) {
      const LinearWeights& weights = (*products_)[next_product_ + i];
      const int64_t bytes = std::min(left, int64_t{2} * weights.n * weights.k);
      decode.next_weights[i] = {reinterpret_cast<const std::byte*>(weights.weight), bytes};
      left -= bytes;
    }
  }

  /// In as many launches as the partial results of their tiles ask for.
  void decode_attention(const AttentionArgs& args, const TileList& list, bool appends) {
    const auto bytes = [&](int64_t tiles) {
      return static_cast<int64_t>(
          decode_attention_scratch_bytes(args, static_cast<int>(tiles), list.max_splits));
    };
    int64_t at_once = list.num_tiles;
    while (at_once > 1 && bytes(at_once) > kMaxPartialBytes) at_once = (at_once + 1) / 2;
    DecodeAttention decode;
    decode.max_splits = list.max_splits;
    decode.appends = appends;
    if (options_.tuning.prefetch) add_next_weights(decode);
    decode.scratch = reserve(attention_scratch_, bytes(at_once), true);
    for (int64_t first = 0; first < list.num_tiles; first += at_once) {
      decode.tiles = list.tiles + first;
      decode.num_tiles = static_cast<int>(std::min(at_once, list.num_tiles - first));
      launch_decode_attention(args, decode, queue());
    }
  }

  ThreadPool* pool_;
  CudaOptions options_;
  std::string isa_;
  std::string hardware_;
  Stream stream_;
  std::unique_ptr<StepArrays> arrays_;
  std::unique_ptr<Sampler> sampler_;
  StepGraphs graphs_;
  bool uses_graph_ = false;               // the step under way
  bool replays_ = false;                  // and nothing of it is to be queued
  std::unique_ptr<WeightUpload> upload_;  // while weights are placed
  std::unique_ptr<CublasLtGemm> cublaslt_;
  std::map<const void*, std::vector<LinearWeights>> product_orders_;  // by StepKey::model
  std::vector<LinearWeights>* products_ = nullptr;                    // of the step's model
  size_t next_product_ = 0;
  std::vector<DeviceMemory> weights_;
  PinnedWorkspace host_copy_;
  Workspace normed_;   // [rows, k] BF16
  Workspace gate_up_;  // [rows, 2 I] float32
  Workspace queries_;  // [prefill rows, q] BF16
  Workspace attention_scratch_;
  std::map<std::pair<int, int>, Workspace> product_scratch_;  // by (n, k)
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(ThreadPool& pool, const CudaOptions& options) {
  return std::make_unique<CudaBackend>(pool, options);
}

}  // namespace llm
