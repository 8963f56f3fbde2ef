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
#include "cuda/step_arrays.h"
#include "cuda/weight_upload.h"

namespace llm {
namespace {

// Rows of prompts that one product takes: bounds the workspace.
constexpr int64_t kMaxLargeRows = 2048;
// Partial results of attention that are in memory at a time.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

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
  return {reinterpret_cast<const bf16*>(first.weight.data), first.bias,
          static_cast<int>(linear.n()), static_cast<int>(linear.k)};
}

/// Of one row of a product's result: n / 2 BF16 for kSiluMul, else n float32.
int64_t out_row_bytes(Epilogue epilogue, const Linear& linear) {
  return epilogue == Epilogue::kSiluMul ? linear.n() / 2 * 2 : linear.n() * 4;
}

class CudaBackend : public Backend {
 public:
  CudaBackend(ThreadPool& pool, const CudaOptions& options)
      : pool_(&pool), device_(options.device), invariant_(options.invariant) {
    use_device();
    cudaDeviceProp properties{};
    LLM_CUDA(cudaGetDeviceProperties(&properties, device_));
    isa_ = fmt::format("sm_{}{}", properties.major, properties.minor);
    stream_ = make_stream();
    arrays_ = std::make_unique<StepArrays>();
    if (!invariant_) cublaslt_ = CublasLtGemm::create();
  }

  std::string_view name() const override { return "cuda"; }
  std::string isa() const override { return isa_; }
  ActDType act() const override { return ActDType::kBF16; }
  DType operand_dtype() const override { return DType::kBF16; }

  // ---- Memory ----

  DeviceMemory allocate(int64_t bytes) override {
    use_device();
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

  void finish() override {
    if (upload_) upload_->finish();
    upload_.reset();
    LLM_CUDA(cudaStreamSynchronize(stream()));
  }

  // ---- Weights ----

  bool copies_weights() const override { return true; }

  void place(Embedding& table) override {
    std::byte* to = new_weights(table.weight.shape.num_elements() * 2);
    upload().bf16(to, table.weight);
    table.weight = {to, DType::kBF16, table.weight.shape};
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
      upload().bf16(to, part.weight);
      part.weight = {to, DType::kBF16, part.weight.shape};
      to += part.weight.bytes();
    }
  }

 protected:
  // ---- The operations ----

  void do_begin_step(const Batch& batch, const AttentionParams& params) override {
    use_device();
    const int64_t group = params.num_attention_heads / params.num_key_value_heads;
    LLM_CHECK(group <= kCudaMaxGroup && params.head_dim <= kCudaMaxHeadDim &&
              params.head_dim % kCudaWidthMultiple == 0);
    arrays_->upload(batch, static_cast<int>(kCudaMaxGroup / group), invariant_, stream());
  }

  void do_embed(Tensor hidden, const Embedding& table, const Batch& batch) override {
    launch_embed(hidden.as<float>(), as_bf16(table.weight), arrays_->input_ids,
                 static_cast<int>(batch.num_tokens()), static_cast<int>(table.weight.shape[1]),
                 stream());
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

  /// Rows whose logits are wanted are few, and a prompt's last row must not depend on what else
  /// the step holds.
  void do_norm_head(Tensor logits, ConstTensor hidden, const Norm& norm, const Linear& linear,
                    const Batch& batch) override {
    Operand in = normed(hidden, norm);
    in.normed.row_indices = arrays_->logits_indices;
    few_rows(logits.data, Epilogue::kStore, in, linear, batch.num_logits());
  }

  void do_attention(Tensor out, ConstTensor qkv, const AttentionParams& params,
                    const KvCache& cache, const Batch& batch) override {
    const AttentionArgs args = attention_args(out, qkv, params, cache, batch);
    if (arrays_->decode.num_tiles > 0) decode_attention(args, arrays_->decode, true);
    const int64_t first = batch.num_decode_rows;
    const int64_t count = batch.num_tokens() - first;
    if (count == 0) return;
    if (invariant_) {
      launch_kv_append(args, nullptr, static_cast<int>(first), static_cast<int>(count), stream());
      decode_attention(args, arrays_->prefill, false);
      return;
    }
    bf16* queries = queries_.reserve_as<bf16>(count * params.q_size(), stream());
    launch_kv_append(args, queries, static_cast<int>(first), static_cast<int>(count), stream());
    launch_prefill_attention(args, queries, static_cast<int>(first), arrays_->prefill.tiles,
                             arrays_->prefill.num_tiles, stream());
  }

  void do_sample(std::span<int32_t> ids, ConstTensor logits,
                 std::span<const SampleRow> rows) override {
    sample_rows(*pool_, ids, to_host(logits), rows);
  }

 private:
  cudaStream_t stream() const { return stream_.get(); }
  /// The runtime's current device is the calling thread's own.
  void use_device() const { LLM_CUDA(cudaSetDevice(device_)); }

  static const bf16* as_bf16(ConstTensor tensor) {
    LLM_CHECK(tensor.dtype == DType::kBF16, "tensor is {}", name_of(tensor.dtype));
    return reinterpret_cast<const bf16*>(tensor.data);
  }

  static Operand normed(ConstTensor hidden, const Norm& norm) {
    return {nullptr, {hidden.as<float>(), nullptr, norm.weight, norm.eps}};
  }

  AttentionArgs attention_args(Tensor out, ConstTensor qkv, const AttentionParams& params,
                               const KvCache& cache, const Batch& batch) const {
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
    args.max_blocks = static_cast<int>(batch.max_blocks);
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
    const int64_t tokens = batch.num_tokens();
    if (invariant_) return {{{0, tokens, true}, {tokens, tokens, false}}};
    return {{{0, batch.num_decode_rows, true}, {batch.num_decode_rows, tokens, false}}};
  }

  /// out[T, n] (n / 2 for kSiluMul) from all rows of the batch.
  void product(std::byte* out, Epilogue epilogue, const Operand& in, const Linear& linear,
               const Batch& batch) {
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
    std::byte* scratch = product_scratch_[{weights.n, weights.k}].reserve(
        static_cast<int64_t>(small_linear_scratch_bytes(weights)), stream(), true);
    for (int64_t begin = 0; begin < count; begin += kMaxSmallRows) {
      const int m = static_cast<int>(std::min<int64_t>(kMaxSmallRows, count - begin));
      const Operand own = skip(in, begin, linear.k);
      SmallOperand operand{own.x, own.normed};
      if (own.x == nullptr && m > fused_norm_rows(weights)) {
        operand = {norm_rows(own.normed, m, weights.k), {}};
      }
      launch_small_linear(out + begin * row_bytes, epilogue, operand, m, weights, scratch,
                          stream());
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
      float* gate_up = gate_up_.reserve_as<float>(int64_t{m} * weights.n, stream());
      gemm(gate_up, Epilogue::kStore, x, m, weights);
      launch_silu_mul(reinterpret_cast<bf16*>(to), gate_up, m, weights.n / 2, stream());
    }
  }

  void gemm(float* out, Epilogue epilogue, const bf16* x, int m, const LinearWeights& weights) {
    if (cublaslt_ && cublaslt_->run(out, epilogue, x, m, weights, stream())) {
      if (weights.bias != nullptr) launch_add_bias(out, weights.bias, m, weights.n, stream());
      return;
    }
    launch_gemm(out, epilogue, x, m, weights, stream());
  }

  const bf16* norm_rows(const NormedRows& in, int rows, int width) {
    bf16* out = normed_.reserve_as<bf16>(int64_t{rows} * width, stream());
    launch_rms_norm(out, in, rows, width, stream());
    return out;
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
    decode.scratch = attention_scratch_.reserve(bytes(at_once), stream(), true);
    for (int64_t first = 0; first < list.num_tiles; first += at_once) {
      decode.tiles = list.tiles + first;
      decode.num_tiles = static_cast<int>(std::min(at_once, list.num_tiles - first));
      launch_decode_attention(args, decode, stream());
    }
  }

  ThreadPool* pool_;
  int device_;
  bool invariant_;
  std::string isa_;
  Stream stream_;
  std::unique_ptr<StepArrays> arrays_;
  std::unique_ptr<WeightUpload> upload_;  // while weights are placed
  std::unique_ptr<CublasLtGemm> cublaslt_;
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
