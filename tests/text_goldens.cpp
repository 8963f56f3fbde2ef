#include "text_goldens.h"

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>

#include "golden_file.h"
#include "test_data.h"

namespace llm {

void check_goldens(std::string_view file, std::string_view label,
                   const std::function<bool(const JsonValue&)>& matches) {
  check_golden_lines(shared_data() / "goldens" / file, label, matches);
}

void check_golden_lines(const std::filesystem::path& path, std::string_view label,
                        const std::function<bool(const JsonValue&)>& matches) {
  std::ifstream in(path);
  GoldenFile golden{std::string(label)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    golden.line(++number, matches(parse_json(line, path.string())), printable(line));
  }
  CHECK(number > 0);
}

const JsonValue& at(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) throw std::runtime_error("no key " + std::string(key));
  return *value;
}

std::vector<int32_t> ids_of(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.array) ids.push_back(static_cast<int32_t>(id.integer));
  return ids;
}

const Tokenizer& qwen3_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(qwen3_tokenizer_json());
  return tokenizer;
}

Tokenizer load_tokenizer_text(std::string_view folder, std::string_view json) {
  const std::filesystem::path path = fresh_test_dir(folder) / "tokenizer.json";
  std::ofstream(path, std::ios::binary)
      .write(json.data(), static_cast<std::streamsize>(json.size()));
  return Tokenizer::load(path);
}

}  // namespace llm
