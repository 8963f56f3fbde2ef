#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/builtin_files.h"
#include "base/error.h"
#include "base/files.h"

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

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  if (const auto bytes = builtin_file(path)) {
    return std::shared_ptr<const MappedFile>(
        new MappedFile(reinterpret_cast<const std::byte*>(bytes->data()),
                       static_cast<int64_t>(bytes->size()), /*unmap=*/false));
  }
  require_regular_file(path);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) refuse("{}: can't be opened: {}", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) {
    refuse("{}: can't be read: {}", path.string(), std::strerror(errno));
  }
  const int64_t size = info.st_size;
  if (size == 0)
    return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0, /*unmap=*/false));
  void* p = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file.fd, 0);
  if (p == MAP_FAILED) refuse("{}: can't be mapped: {}", path.string(), std::strerror(errno));
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::byte*>(p), size, /*unmap=*/true));
}

MappedFile::~MappedFile() {
  if (unmap_) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

}  // namespace llm
