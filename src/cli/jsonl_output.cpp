#include "cli/jsonl_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "cli/jsonl_request.h"
#include "cli/line_reader.h"
#include "cli/output.h"

namespace llm {

JsonlOutput::JsonlOutput(const std::optional<std::string>& file, bool resume) {
  if (!file) return;
  file_ = *file;
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) refuse("-o {}: {}", file_, std::strerror(errno));
  struct stat status {};
  const bool has_content = ::fstat(fd_, &status) == 0 && status.st_size > 0;
  if (!has_content) return;
  if (!resume) refuse("-o {} has content already: give --resume to go on, or another name", file_);
  read_ids();
}

JsonlOutput::~JsonlOutput() {
  if (fd_ >= 0) ::close(fd_);
}

void JsonlOutput::read_ids() {
  LineReader reader("-o", file_);
  off_t whole = 0;  // bytes of the lines that have their end
  int64_t number = 0;
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  for (std::vector<std::string_view> lines; reader.next(lines);) {
    for (const std::string_view line : lines) {
      ++number;
      const off_t end = whole + static_cast<off_t>(line.size()) + 1;
      if (end > size) break;  // cut off: no line end
      try {
        const Value answer = JsonlReader::parse(line);
        if (answer.find("id") == nullptr) refuse("no \"id\"");
        ids_.insert(JsonlReader::id_of(answer, number));
        num_errors_before_ += answer.find("error") != nullptr;
      } catch (const Error& error) {
        refuse("-o {}: line {} is no answer of an earlier run: {}", file_, number, error.what());
      }
      whole = end;
    }
  }
  if (whole < size && ::ftruncate(fd_, whole) != 0) {
    refuse("-o {}: {}", file_, std::strerror(errno));
  }
}

void JsonlOutput::write(std::string_view line) {
  if (fd_ < 0) return write_stdout(line);
  if (const int error = write_all(fd_, line)) fail("-o {}: {}", file_, std::strerror(error));
}

}  // namespace llm
