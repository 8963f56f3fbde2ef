// Runs one request to its end, sending the answer on as its text becomes certain.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_report.h"
#include "engine/answer_stream.h"
#include "engine/engine.h"
#include "engine/loop_guard.h"
#include "engine/think_budget.h"
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
  /// The end of the answer. Tool calls follow the content, each as JSON on a line of its own.
  void end(const std::vector<ToolCall>& tool_calls);

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
  std::shared_ptr<const ThinkBudget> budget{};
};

/// What ends a request's thought, to be set up before the engine has the request. Nothing without a
/// limit or a tokenizer. `answer` outlives it.
std::shared_ptr<ThinkBudget> limit_thought(Request& request, const std::optional<int64_t>& limit,
                                           const Tokenizer* tokenizer, const AnswerStream& answer);

/// Takes one answer's ids as steps give them, and makes them the result.
class AnswerCollector {
 public:
  /// Stream and printer outlive the collector. The request counts as accepted now.
  AnswerCollector(std::shared_ptr<const Sequence> sequence, AnswerStream& answer,
                  AnswerPrinter& printer, const AnswerRun& run);

  /// After a step. True where what the new ids say ends the answer; ids that the same step gave
  /// after that are no part of it.
  bool take();
  /// With what the engine is to end the sequence then.
  FinishReason own_reason() const;

  /// When no more ids come. All of the result but interrupted and decode_bytes.
  RunResult finish();

 private:
  using Clock = std::chrono::steady_clock;

  std::shared_ptr<const Sequence> sequence_;
  AnswerStream* answer_;
  AnswerPrinter* printer_;
  std::shared_ptr<const ThinkBudget> budget_;
  std::optional<LoopGuard> guard_;
  int64_t num_taken_ = 0;
  Clock::time_point start_;
  std::optional<Clock::time_point> first_;  // the prompt was complete
  Clock::time_point last_;
};

/// Steps the engine, which has no other work, until the sequence is finished, interrupted, or
/// repeats itself, and fills all of the result but decode_bytes.
RunResult run_answer(Engine& engine, const std::shared_ptr<const Sequence>& sequence,
                     AnswerStream& answer, AnswerPrinter& printer, const AnswerRun& run);

/// Says why an answer ended early or is empty: the context is full, it repeated itself, or there
/// was nothing but a thought; that a thought was cut short; and which tool calls are none.
void say_ending(const RunResult& result, const Sequence& sequence, int64_t context, const Log& log);

/// Bytes that a decode step reads: every matrix once, and the cache at the answer's mean length.
double decode_bytes(const Decoder& decoder, const Sequence& sequence, DType kv_dtype);

}  // namespace llm
