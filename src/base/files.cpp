#include "base/files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/builtin_files.h"
#include "base/error.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void refuse_size(const fs::path& path, int64_t max_bytes) {
  refuse("{}: larger than the {} bytes that such a file may have", path.string(), max_bytes);
}

}  // namespace

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return is_builtin_folder(path) || fs::is_directory(path, ec);
}

bool is_listed(const fs::path& path) {
  if (builtin_file(path)) return true;
  std::error_code ec;
  const fs::file_type type = fs::symlink_status(path, ec).type();
  return type != fs::file_type::not_found && type != fs::file_type::none;
}

void require_regular_file(const fs::path& path) {
  if (builtin_file(path)) return;
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  switch (status.type()) {
    case fs::file_type::regular:
      return;
    case fs::file_type::not_found:
      if (fs::is_symlink(fs::symlink_status(path, ec))) {
        refuse("{}: the link leads to a file that isn't there (incomplete download?)",
               path.string());
      }
      refuse("{}: no such file", path.string());
    case fs::file_type::directory:
      refuse("{}: is a folder, but a file is expected here", path.string());
    case fs::file_type::none:
      refuse("{}: can't be read: {}", path.string(), ec.message());
    default:
      refuse("{}: is not a regular file", path.string());
  }
}

std::string read_file(const fs::path& path, int64_t max_bytes) {
  if (const auto bytes = builtin_file(path)) {
    if (static_cast<int64_t>(bytes->size()) > max_bytes) refuse_size(path, max_bytes);
    return std::string(*bytes);
  }
  require_regular_file(path);
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (!file) refuse("{}: can't be opened: {}", path.string(), std::strerror(errno));
  std::string content;
  char chunk[1 << 16];
  while (const size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    content.append(chunk, n);
    if (static_cast<int64_t>(content.size()) > max_bytes) refuse_size(path, max_bytes);
  }
  if (std::ferror(file.get())) {
    refuse("{}: can't be read: {}", path.string(), std::strerror(errno));
  }
  return content;
}

void release_mapped_pages(const std::byte* data, int64_t bytes) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(data) + static_cast<size_t>(bytes)) / page * page;
  // Only advice: where it isn't taken, the pages stay until memory is short.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace llm
