#include "base/descriptor_io.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace llm {
namespace {

/// After a failed call: true if it is worth repeating, now that the descriptor is ready.
bool ready_again(int fd, short events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd wanted = {fd, events, 0};
  return ::poll(&wanted, 1, -1) >= 0 || errno == EINTR;
}

}  // namespace

ssize_t read_some(int fd, char* data, size_t size) {
  while (true) {
    const ssize_t got = ::read(fd, data, size);
    if (got >= 0 || !ready_again(fd, POLLIN)) return got;
  }
}

bool data_waits(int fd) {
  pollfd wanted = {fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (!ready_again(fd, POLLOUT)) {
      return errno;
    }
  }
  return 0;
}

}  // namespace llm
