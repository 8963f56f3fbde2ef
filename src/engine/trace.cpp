#include "engine/trace.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

constexpr std::array<std::string_view, 12> kModuleRows = {"embed_tokens",
                                                          "input_layernorm",
                                                          "q_proj",
                                                          "k_proj",
                                                          "v_proj",
                                                          "self_attn",
                                                          "post_attention_layernorm",
                                                          "gate_proj",
                                                          "up_proj",
                                                          "down_proj",
                                                          "norm",
                                                          "lm_head"};

constexpr const char* kArrow = " → ";
constexpr std::string_view kMissing = "-";

/// A leading 1 for the batch: [1, T, ...].
Shape batched(const Shape& flat) {
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), flat.dims().begin(), flat.dims().end());
  return Shape(dims);
}

const ModuleShape* find_module(const std::vector<TracedStage>& stages, std::string_view name) {
  for (const TracedStage& traced : stages) {
    for (const ModuleShape& module : traced.stage.modules) {
      if (module.name == name) return &module;
    }
  }
  return nullptr;
}

/// Input and output of a module of the table. The attention block as a whole takes what q_proj
/// takes and gives what o_proj gives.
std::optional<std::pair<Shape, Shape>> module_shapes(const std::vector<TracedStage>& stages,
                                                     std::string_view name) {
  const bool block = name == "self_attn";
  const ModuleShape* first = find_module(stages, block ? "q_proj" : name);
  const ModuleShape* last = find_module(stages, block ? "o_proj" : name);
  if (first == nullptr || last == nullptr) return std::nullopt;
  return std::pair(batched(first->input), batched(last->output));
}

std::string arrow(const Shape& from, const Shape& to) {
  return to_string(from) + kArrow + to_string(to);
}

/// The arrow is one column wide but three bytes long.
size_t width_of(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

void append_row(std::string& table, const std::array<std::string, 3>& cells) {
  constexpr std::array<size_t, 2> kWidths = {26, 38};
  for (size_t i = 0; i < kWidths.size(); ++i) {
    table += cells[i];
    const size_t width = width_of(cells[i]);
    table.append(width < kWidths[i] ? kWidths[i] - width : 1, ' ');
  }
  table += cells[2] + "\n";
}

std::string module_cell(const std::vector<TracedStage>& stages, std::string_view name) {
  const auto shapes = module_shapes(stages, name);
  return shapes ? arrow(shapes->first, shapes->second) : std::string(kMissing);
}

std::string output_cell(const std::vector<TracedStage>& stages, std::string_view module) {
  const ModuleShape* found = find_module(stages, module);
  return found ? to_string(batched(found->output)) : std::string(kMissing);
}

/// A stage takes what the stage before it gave; the first takes ids, `sample` gives ids.
std::string stage_cell(const std::vector<TracedStage>& stages, std::string_view name) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i].stage;
    if (stage.name != name) continue;
    const Shape ids = {stage.num_tokens};
    if (name == "sample") return arrow(stages[i].output, ids);
    return arrow(i == 0 ? ids : stages[i - 1].output, stages[i].output);
  }
  return std::string(kMissing);
}

}  // namespace

void ShapeTrace::begin(const Stage& stage) {
  if (stage.name == "embed_tokens") {  // a step begins
    const bool decode = stage.num_decode_rows == stage.num_tokens;
    if (current_ != nullptr) current_->complete = true;
    current_ = decode ? &decode_ : &prefill_;
    if (current_->complete) current_ = nullptr;
  }
}

void ShapeTrace::end(const Stage& stage, ConstTensor output) {
  if (current_ != nullptr && stage.layer <= 0) current_->stages.push_back({stage, output.shape});
}

std::string ShapeTrace::module_table() const {
  std::string table;
  append_row(table, {"module", std::string("prefill input") + kArrow + "output",
                     std::string("decode input") + kArrow + "output"});
  for (const std::string_view name : kModuleRows) {
    append_row(table, {std::string(name), module_cell(prefill_.stages, name),
                       module_cell(decode_.stages, name)});
  }
  table += "K cache of layer 0 " + output_cell(prefill_.stages, "k_cache") + kArrow +
           output_cell(decode_.stages, "k_cache") + "\n";
  table += "attention scores of layer 0 " + output_cell(prefill_.stages, "attn_scores") + kArrow +
           output_cell(decode_.stages, "attn_scores") + "\n";
  return table;
}

std::string ShapeTrace::stage_table() const {
  std::string table;
  append_row(table, {"stage", std::string("prefill input") + kArrow + "output",
                     std::string("decode input") + kArrow + "output"});
  for (const TracedStage& traced : prefill_.stages) {
    const std::string& name = traced.stage.name;
    append_row(table, {name, stage_cell(prefill_.stages, name), stage_cell(decode_.stages, name)});
  }
  return table;
}

}  // namespace llm
