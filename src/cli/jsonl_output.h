// Where `llm run --jsonl` writes: stdout, or a file that a later run can go on with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace llm {

class JsonlOutput {
 public:
  /// Refuses (exit code 2) a file that can't be written, one that is `input` as well, and one that
  /// has content already, unless `resume`: then its ids are read, and a last line that was cut off
  /// is taken away.
  JsonlOutput(const std::optional<std::string>& file, const std::string& input, bool resume);
  ~JsonlOutput();
  JsonlOutput(const JsonlOutput&) = delete;
  JsonlOutput& operator=(const JsonlOutput&) = delete;

  /// The id, as JSON, was in the file before.
  bool has(const std::string& id) const { return ids_.count(id) != 0; }

  /// So many of the file's lines before were errors; they stay.
  int64_t num_errors_before() const { return num_errors_before_; }

  /// Writes a line, line end included, at once. Throws Error where that fails.
  void write(std::string_view line);

 private:
  void read_ids();

  std::string file_;  // empty: stdout
  int fd_ = -1;
  std::unordered_set<std::string> ids_;
  int64_t num_errors_before_ = 0;
};

}  // namespace llm
