// Descriptors that were inherited non-blocking.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "base/descriptor_io.h"

namespace llm {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(30);

TEST_CASE("read_some waits where a non-blocking pipe has nothing yet") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) == 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(kMoment);
    CHECK(write_all(ends[1], "late") == 0);
    std::this_thread::sleep_for(kMoment);
    ::close(ends[1]);
  });
  std::array<char, 16> data{};
  CHECK(read_some(ends[0], data.data(), data.size()) == 4);
  CHECK(std::string(data.data(), 4) == "late");
  CHECK(read_some(ends[0], data.data(), data.size()) == 0);
  writer.join();
  ::close(ends[0]);
}

TEST_CASE("write_all waits where a non-blocking pipe is full") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) == 0);
  const std::string sent(1 << 20, 'x');  // more than a pipe holds
  std::string received;
  std::thread reader([&] {
    std::this_thread::sleep_for(kMoment);
    std::string block(1 << 16, '\0');
    ssize_t got = 0;
    while ((got = read_some(ends[0], block.data(), block.size())) > 0) {
      received.append(block, 0, static_cast<size_t>(got));
    }
  });
  CHECK(write_all(ends[1], sent) == 0);
  ::close(ends[1]);
  reader.join();
  CHECK(received == sent);
  ::close(ends[0]);
  CHECK(write_all(-1, "x") == EBADF);
}

}  // namespace
}  // namespace llm
