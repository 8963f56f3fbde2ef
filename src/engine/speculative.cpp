#include "engine/speculative.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace llm {
namespace {

/// Lengths of the ids to look up, the longest first. A single id says too little.
constexpr size_t kLongestNgram = 4;
constexpr size_t kShortestNgram = 2;

/// Where what followed the latest earlier occurrence of the last n ids begins; nothing if there is
/// none.
std::optional<size_t> what_followed(std::span<const int32_t> ids, size_t n) {
  if (ids.size() <= n) return std::nullopt;
  const auto last = ids.last(n);
  for (size_t at = ids.size() - n; at-- > 0;) {
    if (std::equal(last.begin(), last.end(), ids.begin() + static_cast<ptrdiff_t>(at))) {
      return at + n;
    }
  }
  return std::nullopt;
}

std::optional<size_t> look_up(std::span<const int32_t> ids) {
  for (size_t n = kLongestNgram; n >= kShortestNgram; --n) {
    if (const auto found = what_followed(ids, n)) return found;
  }
  return std::nullopt;
}

}  // namespace

void NgramProposer::propose(Schedule& schedule) {
  for (size_t i = 0; i < static_cast<size_t>(schedule.num_decode_seqs); ++i) {
    const Sequence& sequence = *schedule.sequences[i];
    const auto begin = look_up(sequence.ids());
    if (!begin) continue;
    // Past the last id a repetition goes on with its own guesses. Each is read anew, since adding
    // one may move the ids.
    for (int64_t j = 0; j < schedule.rows[i].max_proposals; ++j) {
      schedule.propose(i, sequence.ids_with_proposals()[*begin + static_cast<size_t>(j)]);
    }
  }
}

DraftProposer::DraftProposer(Decoder& draft, int64_t num_blocks, DType kv_dtype)
    : draft_(&draft), cache_(draft.make_cache(num_blocks, kv_dtype)) {}

void DraftProposer::propose(Schedule& schedule) {
  // First all ids that the draft's cache lacks, then one guess after the other.
  std::vector<DraftRows> rows;
  for (size_t i = 0; i < schedule.rows.size(); ++i) {
    const ScheduledRows& target = schedule.rows[i];
    if (target.sequence->request().on_sampled) continue;  // never gets guesses
    const int64_t begin = target.sequence->num_draft_cached_tokens();
    const int64_t end = target.begin + target.num_tokens;
    const int64_t guesses = target.max_proposals > 0 ? 1 : 0;
    rows.push_back({i, {target.sequence, begin, end - begin, guesses}});
  }
  if (rows.empty()) return;
  const auto decodes = [&](const DraftRows& r) {
    return r.of < static_cast<size_t>(schedule.num_decode_seqs);
  };
  run(schedule, rows, std::count_if(rows.begin(), rows.end(), decodes));
  while (true) {
    rows.clear();
    for (size_t i = 0; i < static_cast<size_t>(schedule.num_decode_seqs); ++i) {
      const Sequence& sequence = *schedule.sequences[i];
      if (sequence.num_proposals() == schedule.rows[i].max_proposals) continue;
      const int64_t last = sequence.length() + sequence.num_proposals() - 1;
      rows.push_back({i, {&sequence, last, 1, 1}});
    }
    if (rows.empty()) return;
    run(schedule, rows, std::ssize(rows));
  }
}

void DraftProposer::run(Schedule& schedule, const std::vector<DraftRows>& rows,
                        int64_t num_decode_seqs) {
  std::vector<ScheduledRows> scheduled;
  for (const DraftRows& r : rows) scheduled.push_back(r.rows);
  const Tensor logits = draft_->forward(builder_.build(scheduled, num_decode_seqs), cache_);
  std::vector<SampleRow> to_draw;
  for (const auto& [of, r] : rows) {
    schedule.drafted(of, r.begin + r.num_tokens);
    if (r.num_logits == 0) continue;
    const Sequence& sequence = *r.sequence;
    to_draw.push_back({.params = &sequence.request().sampling,
                       .prompt_ids = sequence.prompt_ids(),
                       .output_ids = sequence.output_ids_with(sequence.num_proposals()),
                       .num_ids = std::min(sequence.request().num_ids, draft_->config().vocab_size),
                       .logits_row = std::ssize(to_draw)});
  }
  Backend& backend = draft_->backend();
  const auto drawn = backend.sampled(backend.sample(logits, to_draw));
  size_t next = 0;
  for (const auto& [of, r] : rows) {
    if (r.num_logits > 0) schedule.propose(of, id_of(drawn[next++]));
  }
}

}  // namespace llm
