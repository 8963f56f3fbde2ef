#include "golden_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <utility>

#include "test_report.h"

namespace llm {
namespace {

constexpr int kShownFailures = 10;

std::set<int> pending_lines(const std::string& name) {
  std::set<int> lines;
  std::ifstream file("tests/pending_goldens.txt");
  for (std::string entry; std::getline(file, entry);) {
    const size_t colon = entry.rfind(':');
    if (colon != std::string::npos && entry.substr(0, colon) == name) {
      lines.insert(std::stoi(entry.substr(colon + 1)));
    }
  }
  return lines;
}

}  // namespace

GoldenFile::GoldenFile(std::string name) : name_(std::move(name)), pending_(pending_lines(name_)) {}

GoldenFile::~GoldenFile() { note_golden_file(name_, passed_, failed_, skipped_); }

void GoldenFile::line(int number, bool ok, const std::string& detail) {
  const bool pending = pending_.count(number) != 0;
  if (pending && !ok) {
    ++skipped_;
  } else if (pending) {
    ++failed_;
    FAIL_CHECK(name_ << ":" << number << " passes: take it off tests/pending_goldens.txt");
  } else if (ok) {
    ++passed_;
  } else {
    ++failed_;
    FAIL_CHECK(name_ << ":" << number << ": " << (failed_ <= kShownFailures ? detail : "differs"));
  }
}

}  // namespace llm
