// Runs one request to its end, sending the answer on as its text becomes certain.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "cli/run_report.h"
#include "engine/answer_stream.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace llm {

/// Content goes to stdout and thoughts to stderr. On a terminal both lose their control characters.
class AnswerPrinter {
 public:
  struct Options {
    bool content = true;
    bool thoughts = false;
    bool mark_thoughts = false;  // on a terminal: dimmed, or between label lines without styles
    bool end_line = false;       // an answer ends in a newline, even an empty one
  };

  explicit AnswerPrinter(const Options& options);

  void print(const AnswerPiece& piece);
  void end();

 private:
  void print_thoughts(std::string_view text);
  void end_thoughts();

  Options options_;
  bool content_on_terminal_;
  bool thoughts_on_terminal_;
  bool in_thoughts_ = false;
  bool thoughts_end_line_ = false;  // the last character printed is a line end
  bool has_content_ = false;
  bool content_ends_line_ = false;
};

struct AnswerRun {
  bool loop_guard = true;
  bool show_progress = false;           // of a long prompt, on stderr if that is a terminal
  std::function<bool()> interrupted{};  // asked between steps; may be empty
};

/// Steps the engine, which has no other work, until the sequence is finished, interrupted, or
/// repeats itself, and fills all of the result but decode_bytes.
RunResult run_answer(Engine& engine, const std::shared_ptr<const Sequence>& sequence,
                     AnswerStream& answer, AnswerPrinter& printer, const AnswerRun& run);

/// Says why an answer ended early or is empty: the context is full, it repeated itself, or there
/// was nothing but a thought.
void say_ending(const RunResult& result, const Sequence& sequence, int64_t context, const Log& log);

/// Bytes that a decode step reads: every matrix once, and the cache at the answer's mean length.
double decode_bytes(const Decoder& decoder, const Sequence& sequence, DType kv_dtype);

}  // namespace llm
