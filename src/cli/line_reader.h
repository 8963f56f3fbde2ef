// Lines of a file or of stdin, as they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

class LineReader {
 public:
  /// "-": stdin. Refuses (exit code 2) a file that can't be opened, naming the flag.
  LineReader(std::string flag, std::string file);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Waits for a line and takes all that are there by then, about a megabyte at most; false at the
  /// end. The last line needs no line end. The lines are valid until the next call. Refuses a
  /// folder; throws Error (exit code 1) where reading fails.
  bool next(std::vector<std::string_view>& lines) { return take(lines, true); }

  /// The same without waiting: where no whole line is there yet, there are none.
  bool next_if_ready(std::vector<std::string_view>& lines) { return take(lines, false); }

  /// Bytes of the whole file; 0 where that isn't known.
  int64_t file_bytes() const;

 private:
  bool take(std::vector<std::string_view>& lines, bool wait);
  void read_block();

  std::string flag_;
  std::string file_;
  int fd_;
  bool at_end_ = false;
  std::string buffer_;
  size_t taken_ = 0;  // bytes of buffer_ that are in the lines of the last call
};

}  // namespace llm
