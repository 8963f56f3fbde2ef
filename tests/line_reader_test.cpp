// Lines of a pipe, whole and in pieces.
#include "cli/line_reader.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace llm {
namespace {

struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    close_input();
  }
  std::string path() const { return fmt::format("/dev/fd/{}", ends[0]); }
  void write(const std::string& text) {
    REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void close_input() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

using Lines = std::vector<std::string_view>;

TEST_CASE("a line that comes in pieces is taken when it is whole, and not waited for") {
  Pipe pipe;
  LineReader reader("--jsonl", pipe.path());
  Lines lines;
  CHECK(reader.next_if_ready(lines));
  CHECK(lines.empty());
  pipe.write("one\n\ntw");
  CHECK(reader.next_if_ready(lines));
  CHECK(lines == Lines{"one", ""});
  CHECK(reader.next_if_ready(lines));
  CHECK(lines.empty());
  pipe.write("o\nthree");
  CHECK(reader.next(lines));
  CHECK(lines == Lines{"two"});
  pipe.close_input();
  CHECK(reader.next(lines));
  CHECK(lines == Lines{"three"});
  CHECK_FALSE(reader.next(lines));
  CHECK_FALSE(reader.next_if_ready(lines));
}

}  // namespace
}  // namespace llm
