#include "backend/backend.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace llm {
namespace {

void expect_shape(const char* op, const char* operand, const ConstTensor& tensor,
                  const Shape& expected, DType dtype = DType::kF32) {
  LLM_CHECK(tensor.dtype == dtype && tensor.shape == expected, "{}: {} is {} {}, expected {} {}",
            op, operand, name_of(tensor.dtype), to_string(tensor.shape), name_of(dtype),
            to_string(expected));
}

void expect_norm(const char* op, const Norm& norm, int64_t size) {
  LLM_CHECK(norm.size == size, "{}: {} has {} weights, expected {}", op, norm.name, norm.size,
            size);
}

void expect_width(const char* op, const Linear& linear, int64_t k) {
  LLM_CHECK(linear.k == k, "{}: {} takes {} inputs, expected {}", op, linear.name, linear.k, k);
}

double bytes(DType dtype, int64_t rows, int64_t columns) {
  return static_cast<double>(bits_of(dtype)) / 8 * static_cast<double>(rows) *
         static_cast<double>(columns);
}

double bytes_f32(int64_t rows, int64_t columns) { return bytes(DType::kF32, rows, columns); }

/// FLOP and weight bytes of a matrix product over m rows, and its parts as modules.
void add_linear(Stage& stage, const Linear& linear, int64_t m) {
  stage.flop += 2.0 * static_cast<double>(m) * static_cast<double>(linear.k) *
                static_cast<double>(linear.n());
  stage.weight_bytes += static_cast<double>(linear.weight_bytes());
  for (const LinearPart& part : linear.parts) {
    stage.modules.push_back({part.name, {m, linear.k}, {m, part.rows()}});
  }
}

void add_norm(Stage& stage, const Norm& norm, int64_t m) {
  stage.weight_bytes += bytes_f32(1, norm.size);
  stage.modules.push_back({norm.name, {m, norm.size}, {m, norm.size}});
}

Stage make_stage(std::string name, const Batch& batch, int64_t layer) {
  Stage stage;
  stage.name = std::move(name);
  stage.layer = layer;
  stage.num_tokens = batch.num_tokens();
  stage.num_decode_rows = batch.num_decode_rows;
  return stage;
}

Stage attention_stage(const AttentionParams& params, const KvCacheSpec& cache, const Batch& batch,
                      DType out) {
  Stage stage = make_stage("attention", batch, params.layer);
  const int64_t tokens = batch.num_tokens();
  const int64_t heads = params.num_attention_heads;
  const int64_t kv_heads = params.num_key_value_heads;
  const int64_t head_dim = params.head_dim;
  double scores = 0;  // query-key pairs of one head
  for (int32_t position : batch.positions) scores += position + 1;
  double cached = 0;  // distinct tokens whose K and V are read
  for (int32_t length : batch.seq_lens) cached += length;
  stage.flop = 4.0 * scores * static_cast<double>(heads * head_dim);
  stage.kv_bytes = 2.0 * (cached + static_cast<double>(tokens)) *
                   static_cast<double>(cache.block_bytes()) / kKvBlockSize;
  stage.activation_bytes = bytes_f32(tokens, params.q_size() + 2 * params.kv_size()) +
                           bytes(out, tokens, params.q_size());
  if (params.q_norm != nullptr) {
    stage.modules.push_back(
        {params.q_norm->name, {tokens, heads, head_dim}, {tokens, heads, head_dim}});
    stage.modules.push_back(
        {params.k_norm->name, {tokens, kv_heads, head_dim}, {tokens, kv_heads, head_dim}});
  }
  if (batch.num_seqs() == 1) {
    const int64_t length = batch.seq_lens[0];
    stage.modules.push_back(
        {"k_cache", {kv_heads, length - tokens, head_dim}, {kv_heads, length, head_dim}});
    stage.modules.push_back({"attn_scores", {tokens, params.q_size()}, {heads, tokens, length}});
  }
  return stage;
}

}  // namespace

std::string_view kv_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF8E4M3:
      return "fp8";
    case DType::kI8:
      return "int8";
    default:
      return "bf16";
  }
}

std::string_view name_of(ActDType act) { return act == ActDType::kF32 ? "f32" : "bf16"; }

/// Runs the operation, and tells the observer if there is one; make_stage is called only then.
template <typename MakeStage, typename Run>
void Backend::observed(MakeStage make_stage, ConstTensor output, Run run) {
  if (observer_ == nullptr) {
    run();
    return;
  }
  const Stage stage = make_stage();
  observer_->begin(stage);
  run();
  finish();
  observer_->end(stage, output);
}

void Backend::write(std::byte* to, std::span<const std::byte> from) {
  std::memcpy(to, from.data(), from.size());
}

void Backend::begin_step(const Batch& batch, const AttentionParams& params, const KvCache& cache) {
  LLM_CHECK(batch.positions.size() == batch.input_ids.size() &&
            batch.slot_mapping.size() == batch.input_ids.size());
  LLM_CHECK(batch.query_start_loc.size() == batch.seq_lens.size() + 1 &&
            std::ssize(batch.block_tables) >= batch.num_seqs() * batch.max_blocks);
  LLM_CHECK(batch.num_decode_rows >= 0 && batch.num_decode_rows <= batch.num_tokens());
  LLM_CHECK(params.num_attention_heads % params.num_key_value_heads == 0);
  do_begin_step(batch, params, cache);
}

void Backend::embed(Tensor hidden, const Embedding& table, const Batch& batch) {
  const int64_t tokens = batch.num_tokens();
  const int64_t width = table.weight.cols();
  expect_shape("embed", "hidden", hidden, {tokens, width});
  for (int32_t id : batch.input_ids) {
    LLM_CHECK(id < 0 ? runs_ahead() && ~id < num_sampled_ : id < table.weight.rows(),
              "embed: id {} of {}", id, table.weight.rows());
  }
  const auto stage = [&] {
    Stage s = make_stage("embed_tokens", batch, -1);
    s.weight_bytes = static_cast<double>(tokens * table.weight.row_bytes());
    s.activation_bytes = bytes_f32(tokens, width);
    s.modules.push_back({"embed_tokens", {tokens}, {tokens, width}});
    return s;
  };
  observed(stage, hidden, [&] { do_embed(hidden, table, batch); });
}

void Backend::norm_qkv(Tensor qkv, ConstTensor hidden, const Norm& norm, const Linear& linear,
                       const Batch& batch, int64_t layer) {
  const int64_t tokens = batch.num_tokens();
  expect_shape("norm_qkv", "hidden", hidden, {tokens, linear.k});
  expect_shape("norm_qkv", "qkv", qkv, {tokens, linear.n()});
  expect_norm("norm_qkv", norm, linear.k);
  const auto stage = [&] {
    Stage s = make_stage("norm+" + linear.name, batch, layer);
    add_norm(s, norm, tokens);
    add_linear(s, linear, tokens);
    s.activation_bytes = bytes_f32(tokens, linear.k + linear.n());
    return s;
  };
  observed(stage, qkv, [&] { do_norm_qkv(qkv, hidden, norm, linear, batch); });
}

void Backend::attention(Tensor out, ConstTensor qkv, const AttentionParams& params,
                        const KvCache& cache, const Batch& batch) {
  const int64_t tokens = batch.num_tokens();
  const KvCacheSpec& spec = cache.spec();
  expect_shape("attention", "qkv", qkv, {tokens, params.q_size() + 2 * params.kv_size()});
  expect_shape("attention", "out", out, {tokens, params.q_size()}, operand_dtype());
  LLM_CHECK(spec.num_key_value_heads == params.num_key_value_heads &&
                spec.head_dim == params.head_dim && params.layer < spec.num_layers,
            "attention: the cache is of another model");
  for (int32_t position : batch.positions) {
    LLM_CHECK(position >= 0 && position < params.max_positions, "attention: position {} of {}",
              position, params.max_positions);
  }
  const auto stage = [&] { return attention_stage(params, spec, batch, out.dtype); };
  observed(stage, out, [&] { do_attention(out, qkv, params, cache, batch); });
}

void Backend::linear_add(Tensor hidden, ConstTensor x, const Linear& linear, const Batch& batch,
                         int64_t layer) {
  const int64_t tokens = batch.num_tokens();
  expect_shape("linear_add", "hidden", hidden, {tokens, linear.n()});
  expect_shape("linear_add", "x", x, {tokens, linear.k}, operand_dtype());
  const auto stage = [&] {
    Stage s = make_stage(linear.name + "+add", batch, layer);
    add_linear(s, linear, tokens);
    s.activation_bytes = bytes(x.dtype, tokens, linear.k) + 2 * bytes_f32(tokens, linear.n());
    return s;
  };
  observed(stage, hidden, [&] { do_linear_add(hidden, x, linear, batch); });
}

void Backend::norm_gate_up_silu(Tensor out, ConstTensor hidden, const Norm& norm,
                                const Linear& linear, const Batch& batch, int64_t layer) {
  const int64_t tokens = batch.num_tokens();
  LLM_CHECK(linear.parts.size() == 2 && linear.parts[0].rows() == linear.parts[1].rows(),
            "norm_gate_up_silu: {} is not two equal parts", linear.name);
  expect_shape("norm_gate_up_silu", "hidden", hidden, {tokens, linear.k});
  expect_shape("norm_gate_up_silu", "out", out, {tokens, linear.parts[0].rows()}, operand_dtype());
  expect_norm("norm_gate_up_silu", norm, linear.k);
  const auto stage = [&] {
    Stage s = make_stage("norm+" + linear.name + "+silu", batch, layer);
    add_norm(s, norm, tokens);
    add_linear(s, linear, tokens);
    s.activation_bytes =
        bytes_f32(tokens, linear.k) + bytes(out.dtype, tokens, linear.parts[0].rows());
    return s;
  };
  observed(stage, out, [&] { do_norm_gate_up_silu(out, hidden, norm, linear, batch); });
}

void Backend::norm_moe(Tensor hidden, const Norm& norm, const Moe& moe, const Batch& batch,
                       int64_t layer) {
  const int64_t tokens = batch.num_tokens();
  expect_shape("norm_moe", "hidden", hidden, {tokens, moe.gate.k});
  expect_norm("norm_moe", norm, moe.gate.k);
  LLM_CHECK(moe.top_k > 0 && moe.top_k <= moe.num_experts() && moe.gate.n() == moe.num_experts(),
            "norm_moe: {} of {} experts, {} scores", moe.top_k, moe.num_experts(), moe.gate.n());
  const auto stage = [&] {
    Stage s = make_stage("norm+moe", batch, layer);
    add_norm(s, norm, tokens);
    add_linear(s, moe.gate, tokens);
    const Expert& expert = moe.experts[0];
    // Which experts the router chooses isn't known before; this many if it chose evenly.
    const double unused = std::pow(
        1.0 - static_cast<double>(moe.top_k) / static_cast<double>(moe.num_experts()), tokens);
    s.weight_bytes +=
        (1.0 - unused) * static_cast<double>(moe.num_experts()) *
        static_cast<double>(expert.gate_up_proj.weight_bytes() + expert.down_proj.weight_bytes());
    s.flop += 2.0 * static_cast<double>(tokens * moe.top_k * moe.gate.k) *
              static_cast<double>(expert.gate_up_proj.n() + expert.down_proj.k);
    s.activation_bytes = 3 * bytes_f32(tokens, moe.gate.k);
    s.modules.push_back({"experts", {tokens, moe.gate.k}, {tokens, moe.gate.k}});
    return s;
  };
  observed(stage, hidden, [&] { do_norm_moe(hidden, norm, moe, batch); });
}

void Backend::norm_head(Tensor logits, ConstTensor hidden, const Norm& norm, const Linear& linear,
                        const Batch& batch) {
  const int64_t rows = batch.num_logits();
  expect_shape("norm_head", "hidden", hidden, {batch.num_tokens(), linear.k});
  expect_shape("norm_head", "logits", logits, {rows, linear.n()});
  expect_width("norm_head", linear, norm.size);
  for (int32_t row : batch.logits_indices) {
    LLM_CHECK(row >= 0 && row < batch.num_tokens(), "norm_head: row {} of {}", row,
              batch.num_tokens());
  }
  const auto stage = [&] {
    Stage s = make_stage("norm+" + linear.name, batch, -1);
    add_norm(s, norm, rows);
    add_linear(s, linear, rows);
    s.activation_bytes = bytes_f32(rows, linear.k + linear.n());
    return s;
  };
  observed(stage, logits, [&] { do_norm_head(logits, hidden, norm, linear, batch); });
}

SampleTicket Backend::sample(ConstTensor logits, std::span<const SampleRow> rows) {
  LLM_CHECK(logits.shape.rank() == 2, "sample: logits {}", to_string(logits.shape));
  for (const SampleRow& row : rows) {
    LLM_CHECK(row.logits_row >= 0 && row.logits_row < logits.shape[0] && row.num_ids > 0 &&
                  row.num_ids <= logits.shape[1],
              "sample: row {}, {} ids of logits {}", row.logits_row, row.num_ids,
              to_string(logits.shape));
  }
  const auto stage = [&] {
    Stage s;
    s.name = "sample";
    s.num_tokens = std::ssize(rows);
    s.activation_bytes = bytes_f32(std::ssize(rows), logits.shape[1]);
    return s;
  };
  last_ticket_ = SampleTicket{static_cast<uint64_t>(last_ticket_) + 1};
  num_sampled_ = std::ssize(rows);
  observed(stage, logits, [&] { do_sample(last_ticket_, logits, rows); });
  return last_ticket_;
}

}  // namespace llm
