// tests/ROWS.md tells the truth.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "test_data.h"

namespace llm {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Cells of "| a | b |".
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) out.push_back(trimmed(cell));
  return out;
}

}  // namespace

TEST_CASE("tests/ROWS.md names test cases that exist") {
  std::istringstream table(file_text("tests/ROWS.md"));
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| ") || line.starts_with("| row ")) continue;
    CAPTURE(line);
    const std::vector<std::string> row = cells(line);
    REQUIRE(row.size() == 4);
    ++rows;
    if (row[3] == "pending") continue;
    const std::string source = file_text(std::filesystem::path("tests") / row[2]);
    CHECK(source.find("TEST_CASE(\"" + row[3] + "\")") != std::string::npos);
  }
  CHECK(rows > 60);
}

}  // namespace llm
