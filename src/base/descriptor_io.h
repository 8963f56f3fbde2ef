// Reading and writing file descriptors whatever mode they were inherited in: interrupted calls are
// repeated, and a non-blocking descriptor is waited for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

namespace llm {

/// As read(2), but waits until there is something: the number of bytes, 0 at the end, -1 with
/// errno.
ssize_t read_some(int fd, char* data, size_t size);

/// Whether read_some() would give something (or the end) at once.
bool data_waits(int fd);

/// Writes all bytes: 0, or the error number of what stopped it.
int write_all(int fd, std::string_view bytes);

}  // namespace llm
