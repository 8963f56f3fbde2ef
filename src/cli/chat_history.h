// What a person entered in chats, kept over the end of one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llm {

/// $XDG_STATE_HOME/llm/history, or ~/.local/state/llm/history; nothing where neither is set.
std::optional<std::filesystem::path> history_path();

/// A file of one entry per line, in which a newline is written \n and a backslash \\. Whatever goes
/// wrong with it only means that there is no history.
class ChatHistory {
 public:
  static constexpr size_t kMaxEntries = 1000;

  explicit ChatHistory(std::optional<std::filesystem::path> path) : path_(std::move(path)) {}

  /// The last entries, oldest first. A file that has grown far beyond them is cut to them.
  std::vector<std::string> load() const;

  /// Appends one entry; the file is created readable for its owner alone.
  void add(const std::string& entry) const;

 private:
  void write(const std::vector<std::string>& entries, int flags) const;

  std::optional<std::filesystem::path> path_;
};

}  // namespace llm
