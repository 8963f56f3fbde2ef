#include "cli/chat_history.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/descriptor_io.h"
#include "text/utf8.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{64} << 20;

std::string escaped(const std::string& entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') line += "\\\\";
    if (c == '\n') line += "\\n";
    if (c != '\\' && c != '\n') line += c;
  }
  return line + "\n";
}

std::string unescaped(const std::string& line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    entry += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return entry;
}

}  // namespace

std::optional<fs::path> history_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  // A relative path there is to be ignored, says the XDG base directory specification.
  if (variable("XDG_STATE_HOME").is_absolute()) return variable("XDG_STATE_HOME") / "llm/history";
  if (variable("HOME").is_absolute()) return variable("HOME") / ".local/state/llm/history";
  return std::nullopt;
}

std::vector<std::string> ChatHistory::load() const {
  std::error_code error;
  if (!path_ || !fs::is_regular_file(*path_, error)) return {};
  if (fs::file_size(*path_, error) > kMaxFileBytes) return {};
  std::vector<std::string> entries;
  std::ifstream file(*path_, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    entries.push_back(replace_invalid_utf8(unescaped(line)));
  }
  if (entries.size() > 2 * kMaxEntries) {
    entries.erase(entries.begin(), entries.end() - kMaxEntries);
    write(entries, O_TRUNC);
  } else if (entries.size() > kMaxEntries) {
    entries.erase(entries.begin(), entries.end() - kMaxEntries);
  }
  return entries;
}

void ChatHistory::add(const std::string& entry) const { write({entry}, O_APPEND | O_CREAT); }

void ChatHistory::write(const std::vector<std::string>& entries, int flags) const {
  if (!path_) return;
  std::error_code error;
  fs::create_directories(path_->parent_path(), error);
  const int fd = ::open(path_->c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0600);
  if (fd < 0) return;
  std::string lines;
  for (const std::string& entry : entries) lines += escaped(entry);
  write_all(fd, lines);
  ::close(fd);
}

}  // namespace llm
