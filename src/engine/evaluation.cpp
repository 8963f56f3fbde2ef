// A window is a request that generates nothing. Its last token is only predicted, so it isn't part
// of the request. Windows share no prefix with each other, as they begin at different places of the
// text, so the prefix cache is off.
//
// The baseline's engine gets the same requests with the same options, so its steps have the same
// rows: it is always one step ahead, and only that step's logits are kept.
#include "engine/evaluation.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace llm {
namespace {

constexpr int64_t kLogitBytes = int64_t{64} << 20;  // of one step, about
constexpr int64_t kMinRows = 16;
constexpr int64_t kMaxRows = 512;  // more rows in a step don't make it faster

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

std::unique_ptr<Engine> engine_for(const EvalModel& model, const EvalPlan& plan) {
  const EngineOptions options{
      .scheduler = {.context = plan.context,
                    .max_num_seqs = plan.max_num_seqs,
                    .prefill_chunk = plan.prefill_chunk,
                    .max_num_batched_tokens = plan.max_num_seqs + plan.prefill_chunk,
                    .prefix_cache = false},
      .num_cache_tokens = plan.num_cache_tokens,
      .kv_dtype = model.kv_dtype};
  return std::make_unique<Engine>(model.model->decoder(), options);
}

std::span<const float> row_of(ConstTensor logits, int64_t row) {
  const auto width = static_cast<size_t>(logits.shape[1]);
  return {logits.as<float>() + static_cast<size_t>(row) * width, width};
}

class Evaluation {
 public:
  Evaluation(const EvalModel& model, const std::optional<EvalModel>& baseline,
             std::span<const int32_t> ids, int64_t num_ids, const EvalPlan& plan)
      : plan_(plan),
        ids_(ids),
        num_ids_(num_ids),
        pool_(model.model->pool()),
        engine_(engine_for(model, plan)),
        scores_(static_cast<size_t>(plan.num_scored())) {
    if (baseline) baseline_ = engine_for(*baseline, plan);
  }

  std::vector<TokenScore> run(const std::function<void(int64_t)>& on_progress) {
    while (true) {
      while (running_.size() < static_cast<size_t>(plan_.max_num_seqs) &&
             num_started_ < plan_.windows.size()) {
        start(plan_.windows[num_started_++]);
      }
      if (!engine_->has_work()) return std::move(scores_);
      if (baseline_) baseline_->step();
      engine_->step();
      LLM_CHECK(baseline_rows_.empty(), "the baseline is ahead");
      std::erase_if(running_, [](const auto& sequence) { return sequence->finished(); });
      on_progress(num_scored_);
    }
  }

 private:
  /// Logits of a window's rows from first_row on that score tokens.
  struct Rows {
    int64_t window_begin = 0;
    int64_t first_row = 0;
    std::vector<float> logits;  // [rows, width]
    int64_t width = 0;
  };

  void start(const EvalWindow& window) {
    const int64_t first_score = num_to_score_;
    num_to_score_ += window.num_scored();
    if (baseline_) {
      baseline_->add(request(window, [this, window](int64_t first_row, ConstTensor logits) {
        keep(window, first_row, logits);
      }));
    }
    running_.push_back(engine_->add(
        request(window, [this, window, first_score](int64_t first_row, ConstTensor logits) {
          score(window, first_score, first_row, logits);
        })));
  }

  Request request(const EvalWindow& window, std::function<void(int64_t, ConstTensor)> on_logits) {
    Request request;
    request.prompt_ids.assign(ids_.begin() + window.begin, ids_.begin() + window.end - 1);
    request.max_tokens = 0;
    request.num_ids = num_ids_;
    request.on_prompt_logits = std::move(on_logits);
    return request;
  }

  /// The first of the rows from first_row on that scores a token: row i predicts token i + 1.
  static int64_t first_scoring(const EvalWindow& window, int64_t first_row) {
    return std::max(first_row, window.first_scored - 1 - window.begin);
  }

  void keep(const EvalWindow& window, int64_t first_row, ConstTensor logits) {
    const int64_t first = first_scoring(window, first_row);
    const int64_t end = first_row + logits.shape[0];
    if (first >= end) return;
    const int64_t width = logits.shape[1];
    const float* begin = logits.as<float>() + (first - first_row) * width;
    baseline_rows_.push_back(
        {window.begin, first, std::vector<float>(begin, begin + (end - first) * width), width});
  }

  void score(const EvalWindow& window, int64_t first_score, int64_t first_row, ConstTensor logits) {
    const int64_t first = first_scoring(window, first_row);
    const int64_t end = first_row + logits.shape[0];
    if (first >= end) return;
    Rows other;
    if (baseline_) {
      LLM_CHECK(!baseline_rows_.empty(), "the baseline is behind");
      other = std::move(baseline_rows_.front());
      baseline_rows_.pop_front();
      LLM_CHECK(other.window_begin == window.begin && other.first_row == first &&
                std::ssize(other.logits) == (end - first) * other.width);
    }
    pool_.parallel_for(end - first, [&](int64_t i, int) {
      const int64_t token = window.begin + first + i + 1;
      TokenScore& to = scores_[static_cast<size_t>(first_score + token - window.first_scored)];
      const auto own = row_of(logits, first - first_row + i);
      try {
        const int32_t id = ids_[static_cast<size_t>(token)];
        to = score_token(own, id);
        if (baseline_) {
          const auto width = static_cast<size_t>(other.width);
          compare_token(to, id, own, {other.logits.data() + static_cast<size_t>(i) * width, width},
                        num_ids_);
        }
      } catch (const Error& error) {
        fail("the prediction of token {} of the text: {}", token, error.what());
      }
    });
    num_scored_ += end - first;
  }

  const EvalPlan& plan_;
  std::span<const int32_t> ids_;
  int64_t num_ids_;
  ThreadPool& pool_;
  std::unique_ptr<Engine> baseline_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<const Sequence>> running_;
  std::deque<Rows> baseline_rows_;  // of the step that the model hasn't made yet
  std::vector<TokenScore> scores_;
  size_t num_started_ = 0;    // windows
  int64_t num_to_score_ = 0;  // tokens of these
  int64_t num_scored_ = 0;
};

}  // namespace

int64_t EvalPlan::num_scored() const {
  int64_t sum = 0;
  for (const EvalWindow& window : windows) sum += window.num_scored();
  return sum;
}

EvalPlan plan_evaluation(std::vector<EvalWindow> windows, int64_t vocab_size,
                         std::optional<int64_t> max_num_seqs) {
  EvalPlan plan;
  for (const EvalWindow& window : windows) {
    plan.context = std::max(plan.context, window.end - window.begin);
  }
  const int64_t row_bytes = vocab_size * static_cast<int64_t>(sizeof(float));
  plan.prefill_chunk = std::clamp(kLogitBytes / row_bytes, kMinRows, kMaxRows);
  plan.max_num_seqs =
      max_num_seqs.value_or(std::max<int64_t>(1, plan.prefill_chunk / plan.context));
  plan.max_num_seqs = std::min(plan.max_num_seqs, std::ssize(windows));
  plan.num_cache_tokens = plan.max_num_seqs * round_up(plan.context, kKvBlockSize);
  plan.windows = std::move(windows);
  return plan;
}

std::vector<TokenScore> evaluate(const EvalModel& model, const std::optional<EvalModel>& baseline,
                                 std::span<const int32_t> ids, int64_t num_ids,
                                 const EvalPlan& plan,
                                 const std::function<void(int64_t)>& on_progress) {
  return Evaluation(model, baseline, ids, num_ids, plan).run(on_progress);
}

}  // namespace llm
