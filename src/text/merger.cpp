#include "text/merger.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <queue>
#include <utility>

namespace llm {
namespace {

using Merge = MergeTable::Merge;

/// Merges a whole piece with a heap over a linked list: n log n steps, whatever the vocabulary.
class HeapMerger {
 public:
  HeapMerger(const MergeRules& rules, std::string_view piece) : rules_(rules) {
    symbols_.reserve(piece.size());
    for (const char byte : piece) {
      const int32_t token = rules.byte_token(byte);
      if (token == kNoToken) continue;
      const int64_t i = static_cast<int64_t>(symbols_.size());
      symbols_.push_back({token, i - 1, i + 1, {MergeTable::kNoRank, kNoToken}});
    }
    if (!symbols_.empty()) symbols_.back().next = kEnd;
    for (size_t i = 0; i < symbols_.size(); ++i) refresh(static_cast<int64_t>(i));
  }

  void append_to(std::vector<int32_t>& ids) {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      // The neighbourhood may have changed since the candidate was noted.
      if (symbols_[best.position].merge.rank == best.rank) join(best.position);
    }
    for (int64_t i = symbols_.empty() ? kEnd : 0; i != kEnd; i = symbols_[i].next) {
      ids.push_back(symbols_[i].token);
    }
  }

 private:
  static constexpr int64_t kEnd = -1;

  struct Symbol {
    int32_t token;
    int64_t previous;  // kEnd before the first
    int64_t next;      // kEnd after the last
    Merge merge;       // with the next symbol
  };
  struct Candidate {
    uint32_t rank;
    int64_t position;
    /// std::priority_queue has the greatest on top: lowest rank first, then leftmost.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  /// Looks up the merge of symbol i with its next one.
  void refresh(int64_t i) {
    Symbol& symbol = symbols_[i];
    symbol.merge = symbol.next == kEnd ? Merge{MergeTable::kNoRank, kNoToken}
                                       : rules_.find(symbol.token, symbols_[symbol.next].token);
    if (symbol.merge.rank != MergeTable::kNoRank) candidates_.push({symbol.merge.rank, i});
  }

  void join(int64_t i) {
    Symbol& symbol = symbols_[i];
    Symbol& gone = symbols_[symbol.next];
    symbol.token = symbol.merge.result;
    symbol.next = gone.next;
    gone.merge.rank = MergeTable::kNoRank;
    if (symbol.next != kEnd) symbols_[symbol.next].previous = i;
    refresh(i);
    if (symbol.previous != kEnd) refresh(symbol.previous);
  }

  const MergeRules& rules_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

/// Merges a long piece in windows that overlap, in steps that grow with its length alone.
///
/// Tokens t1 … tn are what merging a text gives if, and only if, merging each two neighbours' bytes
/// t(i) t(i+1) alone gives these two again: up to the first merge across one of the borders, both
/// go the same way, so the two neighbours alone would make that merge too. Hence windows may be
/// merged apart and joined at any border where this holds: the last tokens of a window, which may
/// miss what comes behind it, are left to the next window, which begins with them.
class WindowMerger {
 public:
  WindowMerger(const MergeRules& rules, std::string_view piece, size_t window)
      : rules_(rules), piece_(piece), window_(window) {}

  /// False, with a part of the tokens appended, if some windows can't be joined.
  bool append_to(std::vector<int32_t>& ids) {
    size_t begin = 0;
    merge(current_, begin);
    while (begin + window_ < piece_.size()) {
      const std::optional<size_t> border = join_next(begin);
      if (!border) return false;
      append(*current_, *border, ids);
      begin += *border;
      std::swap(current_, following_);
    }
    append(*current_, current_->end(), ids);
    return true;
  }

 private:
  static constexpr int kMaxTries = 3;

  std::string_view bytes_at(size_t begin) const { return piece_.substr(begin, window_); }

  void merge(MergedStretch* stretch, size_t begin) const {
    stretch->merge(rules_, bytes_at(begin));
  }

  /// The place in the current window, which begins at `begin`, where the following one begins. It
  /// isn't the first; the following window is merged.
  std::optional<size_t> join_next(size_t begin) {
    // The tokens that end in the first three quarters, as far as they matter.
    std::array<size_t, kMaxTries> borders;  // a ring
    size_t num_borders = 0;
    size_t last = current_->begin();
    for (size_t p = last; p != current_->end();) {
      last = p;
      p = current_->next(p);
      if (p > window_ / 4 * 3) break;
      borders[num_borders++ % kMaxTries] = last;
    }
    for (int tries = 0; tries < kMaxTries && num_borders > 0; ++tries) {
      const size_t left = borders[--num_borders % kMaxTries];
      const size_t border = current_->next(left);
      if (bytes_at(begin + border) == bytes_at(begin)) {
        *following_ = *current_;
      } else {
        merge(following_, begin + border);
      }
      if (stay_apart(begin, left, border)) return border;
    }
    return std::nullopt;
  }

  /// Whether merging the bytes of the token at `left` and of the following window's first one gives
  /// these two tokens.
  bool stay_apart(size_t begin, size_t left, size_t border) {
    const size_t right = following_->begin();
    if (right == following_->end()) return false;
    const std::string_view both =
        piece_.substr(begin + left, border - left + following_->next(right));
    const size_t middle = border - left + right;
    if (both == apart_ && middle == apart_middle_) return true;
    if (both.size() > MergedStretch::kMaxBytes) return false;
    joint_.merge(rules_, both);
    const size_t second = joint_.next(joint_.begin());
    const bool apart = second == middle && joint_.next(second) == joint_.end() &&
                       joint_.token(joint_.begin()) == current_->token(left) &&
                       joint_.token(second) == following_->token(right);
    if (apart) {
      apart_ = both;
      apart_middle_ = middle;
    }
    return apart;
  }

  void append(const MergedStretch& window, size_t end, std::vector<int32_t>& ids) const {
    for (size_t p = window.begin(); p != end; p = window.next(p)) ids.push_back(window.token(p));
  }

  const MergeRules& rules_;
  std::string_view piece_;
  size_t window_;
  MergedStretch stretches_[2];
  MergedStretch* current_ = &stretches_[0];
  MergedStretch* following_ = &stretches_[1];
  MergedStretch joint_;
  std::string_view apart_;  // bytes of two tokens that are known to stay apart
  size_t apart_middle_ = 0;
};

/// Four keys that are compared at once, by whatever instructions the machine has for it.
using FourKeys = uint32_t __attribute__((vector_size(16)));

FourKeys four_at(const uint32_t* keys) {
  FourKeys four;
  std::memcpy(&four, keys, sizeof four);
  return four;
}

FourKeys lower(FourKeys a, FourKeys b) { return a < b ? a : b; }

}  // namespace

uint32_t MergedStretch::lowest_key() const {
  FourKeys a = four_at(keys_.data());
  FourKeys b = four_at(keys_.data() + 4);
  for (size_t i = kLanes; i < end_; i += kLanes) {
    a = lower(a, four_at(keys_.data() + i));
    b = lower(b, four_at(keys_.data() + i + 4));
  }
  a = lower(a, b);
  return std::min(std::min(a[0], a[1]), std::min(a[2], a[3]));
}

void MergedStretch::refresh(const MergeRules& rules, size_t position) {
  const size_t next = next_[position];
  keys_[position] = kNoKey;
  if (next == end_) return;
  const Merge merge = rules.find(tokens_[position], tokens_[next]);
  if (merge.rank == MergeTable::kNoRank) return;
  keys_[position] = merge.rank << 8 | static_cast<uint32_t>(position);
  results_[position] = merge.result;
}

void MergedStretch::link(size_t position, size_t next) {
  next_[position] = static_cast<uint16_t>(next);
  previous_[next] = static_cast<uint16_t>(position);
}

/// Sets what there is before any merge.
void MergedStretch::begin_with_symbols(const MergeRules& rules, std::string_view bytes) {
  end_ = bytes.size();
  first_ = end_;
  size_t last = end_;
  for (size_t i = 0; i < end_;) {
    const MergeRules::Symbol symbol = rules.symbol_at(bytes, i);
    if (symbol.token != kNoToken) {
      tokens_[i] = symbol.token;
      if (last == end_) {
        first_ = i;
      } else {
        link(last, i);
        rules.prefetch(tokens_[last], symbol.token);
      }
      last = i;
    }
    i += symbol.length;
  }
  link(last, end_);
}

void MergedStretch::merge(const MergeRules& rules, std::string_view bytes) {
  begin_with_symbols(rules, bytes);
  std::fill_n(keys_.begin(), (end_ + kLanes - 1) / kLanes * kLanes, kNoKey);
  for (size_t i = first_; i != end_; i = next_[i]) refresh(rules, i);

  highest_rank_ = 0;
  for (uint32_t key; (key = lowest_key()) != kNoKey;) {
    highest_rank_ = std::max(highest_rank_, key >> 8);
    const size_t position = key & 0xff;
    const size_t gone = next_[position];
    tokens_[position] = results_[position];
    keys_[gone] = kNoKey;
    link(position, next_[gone]);
    if (position != first_) {
      rules.prefetch(tokens_[previous_[position]], tokens_[position]);
      refresh(rules, position);
      refresh(rules, previous_[position]);
    } else {
      refresh(rules, position);
    }
  }
}

void append_merged(const MergeRules& rules, std::string_view piece, std::vector<int32_t>& ids,
                   size_t window) {
  const size_t num_ids = ids.size();
  for (; window <= MergedStretch::kMaxBytes; window *= 2) {
    if (WindowMerger(rules, piece, window).append_to(ids)) return;
    ids.resize(num_ids);
  }
  HeapMerger(rules, piece).append_to(ids);
}

}  // namespace llm
