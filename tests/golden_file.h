// Line-by-line results of a golden file, with the lines that the product can't do yet.
#pragma once

#include <set>
#include <string>

namespace llm {

/// Counts a golden file's lines, and reports them in the closing table when it dies. A line listed
/// in tests/pending_goldens.txt ("chat.jsonl:12") counts as skipped while it fails; once it passes
/// it must leave the list, so that the list can only shrink.
class GoldenFile {
 public:
  explicit GoldenFile(std::string name);
  ~GoldenFile();
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  /// Result of line `number` (from 1). `detail` says what differed; the first few are shown.
  void line(int number, bool ok, const std::string& detail = "");

 private:
  std::string name_;
  std::set<int> pending_;
  int passed_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

}  // namespace llm
