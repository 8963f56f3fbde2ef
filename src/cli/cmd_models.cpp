// llm models: what is known, what is installed, and what fits this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/memory.h"
#include "io/hub_cache.h"
#include "io/model_list.h"
#include "model/model_config.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

/// Memory beside the weights, for keys, values and activations of a short conversation.
constexpr double kRoomBesideWeights = 1.1;

struct ModelsOptions {
  std::string filter;
  bool json = false;
};

struct Machine {
  int64_t memory = 0;  // kUnlimitedMemory: not known
  std::optional<fs::path> cache;
  std::optional<int64_t> disk_free;  // where the cache is, or will be
};

/// One line of the table.
struct Row {
  ListedModel model;
  std::optional<fs::path> path;  // installed there
  bool loadable = true;
  std::optional<bool> fits_memory, fits_disk;  // nothing: not known
};

Machine look_at_machine() {
  Machine machine;
  machine.memory = available_memory();
  machine.cache = hub_cache();
  if (machine.cache) machine.disk_free = free_disk_space(*machine.cache);
  return machine;
}

/// Bytes of the weights in a snapshot.
int64_t bytes_of_weights(const fs::path& snapshot) {
  int64_t bytes = 0;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(snapshot, ec)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto size = fs::file_size(entry.path(), ec);
    if (!ec) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

/// What is in the cache and not in models.txt; its own config says whether it can be loaded.
std::optional<Row> unlisted_row(const std::string& id) {
  if (find_listed_model(id) != nullptr) return std::nullopt;
  Row row;
  row.path = installed_snapshot(id);
  if (!row.path) return std::nullopt;
  row.model.alias = row.model.hub_id = id;
  row.model.bytes = bytes_of_weights(*row.path);
  try {
    const ModelConfig config = load_model_config(*row.path);
    row.model.parameters = config.num_parameters();
  } catch (const Error&) {
    row.loadable = false;
  }
  return row;
}

std::vector<Row> collect_rows() {
  std::vector<Row> rows;
  for (const ListedModel& model : model_list()) {
    Row row;
    row.model = model;
    row.loadable = can_load(model.model_type, model.quant_method);
    if (!model.hub_id.empty()) row.path = installed_snapshot(model.hub_id);
    rows.push_back(std::move(row));
  }
  for (const std::string& id : cached_hub_ids()) {
    if (auto row = unlisted_row(id)) rows.push_back(std::move(*row));
  }
  return rows;
}

void judge(Row& row, const Machine& machine) {
  if (!row.model.bytes) return;
  const double bytes = static_cast<double>(*row.model.bytes);
  row.fits_memory = bytes * kRoomBesideWeights <= static_cast<double>(machine.memory);
  if (machine.disk_free) row.fits_disk = bytes <= static_cast<double>(*machine.disk_free);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool matches(const Row& row, const std::string& filter) {
  const std::string wanted = lower(filter);
  return lower(row.model.alias).find(wanted) != std::string::npos ||
         lower(row.model.hub_id).find(wanted) != std::string::npos;
}

std::string installed_word(const Row& row) {
  if (row.model.hub_id.empty()) return "built in";
  return row.path ? "yes" : "-";
}

/// Why the model can't be used here, or that it can.
std::string fits_word(const Row& row) {
  const bool here = row.path || row.model.hub_id.empty();
  if (!row.fits_memory) return "?";
  if (!*row.fits_memory) return "no: memory";
  if (!here && !row.fits_disk.value_or(true)) return "no: disk";
  return "yes";
}

std::string notes(const Row& row) {
  const std::string& method = row.model.quant_method;
  std::string text = row.model.model_type;
  if (!text.empty()) text += " " + (method.empty() ? "bf16" : method);
  if (!row.model.remarks.empty()) text += ", " + row.model.remarks;
  if (!row.loadable) text += (text.empty() ? "" : "; ") + std::string("not yet loadable");
  return text;
}

std::string parameters_text(int64_t count) {
  if (count == 0) return "?";
  if (count < 1'000'000'000) return fmt::format("{:.1f} M", static_cast<double>(count) / 1e6);
  return fmt::format("{:.2f} B", static_cast<double>(count) / 1e9);
}

std::string size_text(const std::optional<int64_t>& bytes) {
  return bytes ? human_bytes(static_cast<double>(*bytes)) : "?";
}

std::string table(const std::vector<Row>& rows, const Machine& machine) {
  size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.model.alias.size());
  std::string text = fmt::format("{:{}}  {:>10}  {:>8}  {:9}  {:10}  {}\n", "model", width,
                                 "parameters", "weights", "installed", "fits here", "notes");
  for (const Row& row : rows) {
    std::string line =
        fmt::format("{:{}}  {:>10}  {:>8}  {:9}  {:10}  {}", row.model.alias, width,
                    parameters_text(row.model.parameters), size_text(row.model.bytes),
                    installed_word(row), fits_word(row), notes(row));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += "\n";
  for (const Row& row : rows) {
    if (row.path) text += fmt::format("{} is in {}\n", row.model.alias, row.path->string());
  }
  if (machine.memory != kUnlimitedMemory) {
    text += fmt::format("memory available: {}\n", human_bytes(static_cast<double>(machine.memory)));
  }
  if (machine.cache) {
    text +=
        fmt::format("cache: {} ({} free)\n", machine.cache->string(), size_text(machine.disk_free));
  }
  return text + "`llm get MODEL` downloads one, `llm run -m MODEL` runs it.\n";
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string json(const std::vector<Row>& rows, const Machine& machine) {
  Json list = Json::array();
  for (const Row& row : rows) {
    const ListedModel& m = row.model;
    list.push_back({{"alias", m.alias},
                    {"hub_id", m.hub_id.empty() ? Json(nullptr) : Json(m.hub_id)},
                    {"parameters", m.parameters == 0 ? Json(nullptr) : Json(m.parameters)},
                    {"bytes", or_null(m.bytes)},
                    {"model_type", m.model_type.empty() ? Json(nullptr) : Json(m.model_type)},
                    {"quant_method", m.quant_method.empty() ? Json(nullptr) : Json(m.quant_method)},
                    {"remarks", m.remarks},
                    {"loadable", row.loadable},
                    {"installed", row.path.has_value() || m.hub_id.empty()},
                    {"path", row.path ? Json(row.path->string()) : Json(nullptr)},
                    {"fits_memory", or_null(row.fits_memory)},
                    {"fits_disk", or_null(row.fits_disk)}});
  }
  const bool known = machine.memory != kUnlimitedMemory;
  const Json object = {{"models", list},
                       {"memory_available", known ? Json(machine.memory) : Json(nullptr)},
                       {"cache", machine.cache ? Json(machine.cache->string()) : Json(nullptr)},
                       {"disk_free", or_null(machine.disk_free)}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExitCode list_models(const ModelsOptions& options) {
  const Machine machine = look_at_machine();
  std::vector<Row> rows;
  for (Row& row : collect_rows()) {
    if (!matches(row, options.filter)) continue;
    judge(row, machine);
    rows.push_back(std::move(row));
  }
  if (rows.empty() && !options.json) {
    const std::optional<std::string> similar = similar_alias(options.filter);
    refuse("no model's name has \"{}\" in it{}", options.filter,
           similar ? fmt::format("; did you mean {}?", *similar) : "");
  }
  write_stdout(options.json ? json(rows, machine) : table(rows, machine));
  return ExitCode::kOk;
}

}  // namespace

Action add_models(CLI::App& app) {
  auto options = std::make_shared<ModelsOptions>();
  app.add_option("FILTER", options->filter, "Only models with this in their name")
      ->type_name("FILTER");
  app.add_flag("--json", options->json, "One JSON object");
  app.footer("llm models qwen3-4b");
  return [options] { return list_models(*options); };
}

}  // namespace llm
