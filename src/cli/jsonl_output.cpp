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
namespace {

// How each line that is written here begins. A last line without its end that begins so was cut
// off; any other is none of ours.
constexpr std::string_view kLineBegin = "{\"id\":";

}  // namespace

JsonlOutput::JsonlOutput(const std::optional<std::string>& file, const std::string& input,
                         bool resume) {
  if (!file) return;
  file_ = *file;
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) refuse("-o {}: {}", file_, std::strerror(errno));
  struct stat status {};
  const bool has_content = ::fstat(fd_, &status) == 0 && status.st_size > 0;
  if (!has_content) return;
  struct stat input_status {};
  if (::stat(input.c_str(), &input_status) == 0 && input_status.st_dev == status.st_dev &&
      input_status.st_ino == status.st_ino) {
    refuse("-o {} is the file that is read: give another name", file_);
  }
  if (!resume) refuse("-o {} has content already: give --resume to go on, or another name", file_);
  read_ids();
}

JsonlOutput::~JsonlOutput() {
  if (fd_ >= 0) ::close(fd_);
}

void JsonlOutput::read_ids() {
  LineReader reader("-o", file_);
  off_t whole = 0;  // bytes of the lines that are whole, with their ends
  bool cut_off = false;
  int64_t number = 0;
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  for (std::vector<std::string_view> lines; reader.next(lines);) {
    for (const std::string_view line : lines) {
      ++number;
      const off_t end = whole + static_cast<off_t>(line.size()) + 1;
      if (end > size && line.starts_with(kLineBegin.substr(0, line.size()))) {
        cut_off = true;
        break;
      }
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
  if (cut_off && ::ftruncate(fd_, whole) != 0) {
    refuse("-o {}: {}", file_, std::strerror(errno));
  }
  if (whole > size) write("\n");
}

void JsonlOutput::write(std::string_view line) {
  if (fd_ < 0) return write_stdout(line);
  if (const int error = write_all(fd_, line)) fail("-o {}: {}", file_, std::strerror(error));
}

}  // namespace llm
