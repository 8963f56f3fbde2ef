#include "io/model_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/closest.h"
#include "base/embedded.h"
#include "base/error.h"
#include "io/hub_cache.h"
#include "io/json.h"

namespace llm {
namespace {

constexpr std::string_view kFile = "models.txt";
constexpr std::string_view kNone = "-";
constexpr std::string_view kPlain = "bf16";

std::optional<int64_t> parse_count(const std::string& word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value <= 0) return std::nullopt;
  return value;
}

ListedModel parse_line(const std::string& line, const std::string& place) {
  std::istringstream words(line);
  ListedModel model;
  std::string parameters, bytes;
  words >> model.alias >> model.hub_id >> parameters >> bytes >> model.model_type >>
      model.quant_method;
  if (!words) {
    refuse("{}: expected alias, hub id, parameters, bytes, model_type and quant_method: \"{}\"",
           place, printable(line));
  }
  std::getline(words >> std::ws, model.remarks);
  if (model.quant_method.ends_with(',')) model.quant_method.pop_back();
  if (model.quant_method == kPlain) model.quant_method.clear();
  if (model.hub_id == kNone) model.hub_id.clear();
  if (!model.hub_id.empty() && !is_hub_id(model.hub_id)) {
    refuse("{}: \"{}\" is not a hub id Owner/Name", place, printable(model.hub_id));
  }
  if (model.alias.find('/') != std::string::npos) {
    refuse("{}: alias \"{}\" has a slash", place, printable(model.alias));
  }
  const std::optional<int64_t> count = parse_count(parameters);
  model.bytes = parse_count(bytes);
  if (!count || (!model.bytes && bytes != kNone)) {
    refuse("{}: parameters \"{}\" and bytes \"{}\" are not both positive numbers", place,
           printable(parameters), printable(bytes));
  }
  model.parameters = *count;
  return model;
}

}  // namespace

std::vector<ListedModel> parse_model_list(std::string_view text, const std::string& origin) {
  std::vector<ListedModel> models;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::string place = fmt::format("{}:{}", origin, number);
    ListedModel model = parse_line(line, place);
    for (const ListedModel& other : models) {
      if (other.alias == model.alias) refuse("{}: alias {} is there twice", place, model.alias);
    }
    models.push_back(std::move(model));
  }
  return models;
}

const std::vector<ListedModel>& model_list() {
  static const std::vector<ListedModel> models =
      parse_model_list(embedded_file(kFile).value(), std::string(kFile));
  return models;
}

const ListedModel* find_listed_model(std::string_view alias_or_id) {
  if (alias_or_id.empty()) return nullptr;
  for (const ListedModel& model : model_list()) {
    if (model.alias == alias_or_id || model.hub_id == alias_or_id) return &model;
  }
  return nullptr;
}

std::optional<std::string> similar_alias(std::string_view name) {
  std::vector<std::string> aliases;
  for (const ListedModel& model : model_list()) aliases.push_back(model.alias);
  const std::string_view last = name.substr(name.rfind('/') + 1);  // all of it without a slash
  const std::optional<std::string> similar = closest(last, aliases);
  return similar && *similar != name ? similar : std::nullopt;
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} bytes", bytes);
  const int decimals = bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}

}  // namespace llm
