#include "cli/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor_io.h"
#include "base/error.h"

namespace llm {
namespace {

constexpr size_t kInputBlock = 1 << 16;
constexpr size_t kBatchBytes = 1 << 20;  // read ahead at most, but for a longer line

}  // namespace

LineReader::LineReader(std::string flag, std::string file)
    : flag_(std::move(flag)), file_(std::move(file)), fd_(STDIN_FILENO) {
  if (file_ == "-") return;
  fd_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) refuse("{} {}: {}", flag_, file_, std::strerror(errno));
}

LineReader::~LineReader() {
  if (fd_ != STDIN_FILENO) ::close(fd_);
}

bool LineReader::take(std::vector<std::string_view>& lines, bool wait) {
  lines.clear();
  buffer_.erase(0, taken_);
  size_t end = std::string::npos;  // of the last whole line
  size_t num_read = 0;
  while (!at_end_ &&
         ((wait && end == std::string::npos) || (num_read < kBatchBytes && data_waits(fd_)))) {
    const size_t old_size = buffer_.size();
    read_block();
    num_read += buffer_.size() - old_size;
    const size_t last = std::string_view(buffer_).substr(old_size).rfind('\n');
    if (last != std::string_view::npos) end = old_size + last;
  }
  taken_ = end != std::string::npos ? end + 1 : (at_end_ ? buffer_.size() : 0);
  std::string_view text = std::string_view(buffer_).substr(0, taken_);
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return !lines.empty() || !at_end_;
}

int64_t LineReader::file_bytes() const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : 0;
}

void LineReader::read_block() {
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kInputBlock);
  const ssize_t got = read_some(fd_, buffer_.data() + old_size, kInputBlock);
  if (got < 0 && errno == EISDIR) refuse("{} {}: is a folder, not a file", flag_, file_);
  if (got < 0) fail("{} {}: {}", flag_, file_, std::strerror(errno));
  buffer_.resize(old_size + static_cast<size_t>(got));
  at_end_ = got == 0;
}

}  // namespace llm
