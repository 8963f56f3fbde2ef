// models.txt: the models that have a short name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

struct ListedModel {
  std::string alias;             // "qwen3-0.6b"
  std::string hub_id;            // "Qwen/Qwen3-0.6B"; empty: built into the program
  int64_t parameters = 0;        // a tied head counts once
  std::optional<int64_t> bytes;  // of the weights
  std::string model_type;        // as in config.json: "qwen3"
  std::string quant_method;      // as in config.json; empty: plain weights
  std::string remarks;           // may be empty
};

/// Parses a text with the columns that models.txt describes; `origin` names it in messages. Refuses
/// (exit code 2) a line that is none of these, and an alias twice.
std::vector<ListedModel> parse_model_list(std::string_view text, const std::string& origin);

/// The models of the models.txt that is compiled in, in its order.
const std::vector<ListedModel>& model_list();

/// The listed model with this alias, or with this hub id; null if there is none.
const ListedModel* find_listed_model(std::string_view alias_or_id);

/// The alias that was probably meant: the nearest one, if it is near. Never the name itself.
std::optional<std::string> similar_alias(std::string_view name);

/// "1.50 GB": decimal units, three digits.
std::string human_bytes(double bytes);

}  // namespace llm
