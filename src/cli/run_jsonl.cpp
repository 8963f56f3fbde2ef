#include "cli/run_jsonl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/progress_line.h"
#include "base/size_text.h"
#include "cli/answer_loop.h"
#include "cli/chat_signals.h"
#include "cli/counted.h"
#include "cli/jsonl_output.h"
#include "cli/jsonl_request.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/run_report.h"
#include "engine/memory.h"
#include "io/json.h"
#include "text/utf8.h"

namespace llm {
namespace {

/// Lines that are read before the first of them is written: one long answer holds up the output of
/// so many that came after it, and no more.
constexpr size_t kWindow = 1024;

/// A line on its way: waiting in the engine, running, or done and waiting for those before it.
struct Job {
  std::string id;  // as JSON
  int64_t number = 0;
  JsonlRequest request;
  std::shared_ptr<const Sequence> sequence;
  std::unique_ptr<AnswerStream> answer;
  std::unique_ptr<AnswerCollector> collector;
  std::optional<std::string> line;  // of the output, once it is known
};

class JsonlRun {
 public:
  JsonlRun(const RunOptions& options, const ModelFiles& files, LoadedModel& model, Engine& engine,
           uint64_t seed, const Log& log)
      : options_(options),
        files_(files),
        engine_(engine),
        reader_("--jsonl", *options.jsonl),
        requests_(options, files, seed, log),
        output_(options.out, *options.jsonl, options.resume),
        printer_({.content = false}),
        info_(info_of(model.backend(), engine.options().kv_dtype, seed)),
        progress_(!options.common.quiet),
        log_(log) {}

  ExitCode run() {
    while (true) {
      if (signals_ && signals_->take_interrupt() && !drain()) break;
      read_lines();
      if (engine_.has_work()) step();
      write_finished();
      show_progress();
      if (jobs_.empty() && input_ended_ && lines_.empty()) break;
    }
    progress_.clear();
    report();
    if (interrupted_) return ExitCode::kInterrupted;
    return num_errors_ + output_.num_errors_before() > 0 ? ExitCode::kFailed : ExitCode::kOk;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Fills the window; waits for input only when there is nothing else to do.
  void read_lines() {
    while (jobs_.size() < kWindow && !interrupted_) {
      if (lines_.empty()) {
        if (input_ended_) return;
        // With nothing to finish, an interrupt ends the program as it does any other.
        if (jobs_.empty()) signals_.reset();
        std::vector<std::string_view> lines;
        input_ended_ = !(jobs_.empty() ? reader_.next(lines) : reader_.next_if_ready(lines));
        if (!signals_) signals_.emplace();
        for (const std::string_view line : lines) lines_.emplace_back(line);
        if (lines_.empty()) return;
      }
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      ++num_lines_;
      bytes_read_ += static_cast<int64_t>(line.size()) + 1;
      if (line.find_first_not_of(" \t\r") != std::string::npos) accept(line);
    }
  }

  void accept(const std::string& line) {
    Job job;
    job.number = num_lines_;
    job.id = fmt::format("{}", num_lines_);
    const bool is_utf8 = is_valid_utf8(line);
    if (!is_utf8 && !warned_of_utf8_) {
      log_.warn(
          "line {} is not valid UTF-8: U+FFFD takes the place of each ill-formed part, there "
          "and in later lines",
          num_lines_);
      warned_of_utf8_ = true;
    }
    try {
      const Value request = JsonlReader::parse(is_utf8 ? line : replace_invalid_utf8(line));
      job.id = JsonlReader::id_of(request, num_lines_);
      if (output_.has(job.id)) {
        ++num_skipped_;
        return;
      }
      if (!ids_.insert(job.id).second) refuse("the id {} was there before", job.id);
      job.request = requests_.request_of(request);
      start(job);
    } catch (const Error& error) {
      if (output_.has(job.id)) {  // a line that can't be parsed was an error before
        ++num_skipped_;
        return;
      }
      job.line = error_line(job, error.what());
    }
    jobs_.push_back(std::move(job));
  }

  void start(Job& job) {
    const Tokenizer* tokenizer = files_.tokenizer ? &*files_.tokenizer : nullptr;
    const Prompt& prompt = job.request.prompt;
    job.answer = std::make_unique<AnswerStream>(tokenizer, prompt.reasoning, job.request.stops,
                                                prompt.tools_offered);
    Request& request = job.request.request;
    std::shared_ptr<ThinkBudget> budget;
    if (prompt.chat)
      budget = limit_thought(request, options_.answer.think_budget, tokenizer, *job.answer);
    const bool guard = options_.answer.loop_guard && prompt.chat && !request.stop_ids.empty();
    job.sequence = engine_.add(std::move(request));
    job.collector = std::make_unique<AnswerCollector>(
        job.sequence, *job.answer, printer_, AnswerRun{.loop_guard = guard, .budget = budget});
  }

  void step() {
    try {
      engine_.step();
    } catch (const Error& error) {
      fail("{} (lines {} to {} of the input were being answered)", error.what(),
           jobs_.front().number, jobs_.back().number);
    }
    for (Job& job : jobs_) {
      if (job.line) continue;
      if (job.sequence->state() == SequenceState::kWaiting) break;  // and all behind it
      if (job.collector->take()) engine_.finish(*job.sequence, job.collector->own_reason());
      if (job.sequence->finished()) job.line = answer_line(job);
    }
  }

  std::string answer_line(Job& job) {
    RunResult result = job.collector->finish();
    result.first_tool_call = job.request.prompt.num_tool_calls + 1;
    num_tokens_ += std::ssize(result.ids);
    num_proposed_ += result.num_proposed;
    num_accepted_ += result.num_accepted;
    std::string line = run_json(result, info_, options_.print_ids);
    return fmt::format("{{\"id\":{},{}", job.id, line.substr(1));
  }

  std::string error_line(const Job& job, const std::string& message) {
    ++num_errors_;
    return fmt::format("{{\"id\":{},\"error\":{{\"line\":{},\"message\":{}}}}}\n", job.id,
                       job.number, json_quote(message));
  }

  void write_finished() {
    while (!jobs_.empty() && jobs_.front().line) {
      output_.write(*jobs_.front().line);
      ++num_written_;
      jobs_.pop_front();
    }
  }

  /// After an interrupt: what runs is finished, the rest is left out. False the second time.
  bool drain() {
    if (interrupted_) return false;
    interrupted_ = true;
    progress_.clear();
    log_.info("interrupted: finishing what runs, then stopping (again: at once); --resume goes on");
    while (!jobs_.empty() && !jobs_.back().line && !started(jobs_.back())) {
      engine_.finish(*jobs_.back().sequence, FinishReason::kStop);
      jobs_.pop_back();
    }
    lines_.clear();
    input_ended_ = true;
    return true;
  }

  static bool started(const Job& job) {
    return job.sequence->state() != SequenceState::kWaiting || job.sequence->output_length() > 0;
  }

  void show_progress() {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (seconds < shown_at_ + 0.5) return;
    shown_at_ = seconds;
    std::string text = fmt::format("{} answered, {:.0f} tok/s", num_written_,
                                   static_cast<double>(num_tokens_) / seconds);
    const double done = static_cast<double>(bytes_read_) *
                        static_cast<double>(num_written_ + num_skipped_) /
                        static_cast<double>(std::max<int64_t>(1, num_lines_));
    const double all = static_cast<double>(reader_.file_bytes());
    if (done > 0 && all > done) {
      text += fmt::format(", {:.0f} s left", seconds * (all - done) / done);
    }
    progress_.show(text);
  }

  void report() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    log_.info("{} answered, {} failed{}, {} tokens, {:.0f} tok/s{}", num_written_ - num_errors_,
              num_errors_, num_skipped_ > 0 ? fmt::format(", {} skipped", num_skipped_) : "",
              num_tokens_, static_cast<double>(num_tokens_) / std::max(1e-9, seconds),
              engine_.scheduler().num_preemptions() > 0
                  ? fmt::format(", {} preemptions", engine_.scheduler().num_preemptions())
                  : "");
    if (const int64_t errors = output_.num_errors_before()) {
      log_.warn(
          "{} of an earlier run in {} have an error and weren't tried again: take them out of "
          "it, then give --resume",
          counted(errors, "line"), *options_.out);
    }
    if (options_.stats && num_proposed_ > 0) {
      write_stderr("speculation " + speculation_stats(num_tokens_, num_proposed_, num_accepted_));
    }
  }

  const RunOptions& options_;
  const ModelFiles& files_;
  Engine& engine_;
  LineReader reader_;
  JsonlReader requests_;
  JsonlOutput output_;
  AnswerPrinter printer_;
  RunInfo info_;
  ProgressLine progress_;
  const Log& log_;
  std::optional<ChatSignals> signals_;  // while there is something to finish

  std::deque<std::string> lines_;  // read and not yet accepted
  std::deque<Job> jobs_;           // in the input's order
  std::unordered_set<std::string> ids_;
  bool input_ended_ = false;
  bool warned_of_utf8_ = false;
  bool interrupted_ = false;
  double shown_at_ = 0;
  int64_t num_lines_ = 0;
  int64_t bytes_read_ = 0;
  int64_t num_written_ = 0;
  int64_t num_errors_ = 0;
  int64_t num_skipped_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_proposed_ = 0;
  int64_t num_accepted_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

ExitCode run_jsonl(RunOptions& options, const Log& log) {
  constexpr int64_t kDefaultNumSeqs = 16;
  const ModelFiles files = open_model(options.common, log);
  ContextRequest request =
      cache_request(options.common, files, options.engine, {.num_seqs = kDefaultNumSeqs});
  request.max_tokens = kNoTokenLimit;
  const int64_t context = plan_context(request, files.config, log);
  const uint64_t seed = options.common.seed ? *options.common.seed : random_seed();
  SchedulerOptions scheduler{.context = context,
                             .max_num_seqs = options.engine.max_num_seqs.value_or(kDefaultNumSeqs)};
  const int64_t cache_tokens = plan_cache_tokens(
      context, scheduler.max_num_seqs, request.kv_bytes_per_token, request.available_bytes);
  LoadedModel model(files, options.common.model, options.common.device,
                    options.common.seed.value_or(0), context, log);
  const std::unique_ptr<Engine> engine =
      make_engine(model, files,
                  {.scheduler = scheduler,
                   .num_cache_tokens = cache_tokens,
                   .kv_dtype = options.common.device.cache_dtype()},
                  options.engine, log);
  const KvCacheSpec& cache = engine->cache().spec();
  log.info("context {}, at most {} at once; the cache holds {} tokens in {} and takes up to {}",
           engine->options().scheduler.context, counted(scheduler.max_num_seqs, "request"),
           cache.num_blocks * kKvBlockSize, kv_dtype_name(cache.dtype),
           size_text(cache.total_bytes()));
  return JsonlRun(options, files, model, *engine, seed, log).run();
}

}  // namespace llm
