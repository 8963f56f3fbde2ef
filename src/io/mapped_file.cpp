#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

/// Closes a file descriptor at the end of a scope.
struct FileDescriptor {
  int fd;
  explicit FileDescriptor(int f) : fd(f) {}
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
};

}  // namespace

void require_regular_file(const fs::path& path) {
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

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  require_regular_file(path);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) refuse("{}: can't be opened: {}", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) {
    refuse("{}: can't be read: {}", path.string(), std::strerror(errno));
  }
  const int64_t size = info.st_size;
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  void* p = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file.fd, 0);
  if (p == MAP_FAILED) refuse("{}: can't be mapped: {}", path.string(), std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(p), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  }
}

}  // namespace llm
