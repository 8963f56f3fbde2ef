// What the fuzz targets share: an input as a file, and what may happen to it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace llm {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The input as a file that lives in memory, for readers that take a path.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// Runs `use`, which may refuse the input (Error with kRefused) and nothing else: any other
/// exception leaves here and is a finding, as is a refusal without a message.
template <typename Use>
void may_refuse(Use use) {
  try {
    use();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kRefused || *error.what() == '\0') std::abort();
  }
}

}  // namespace llm
