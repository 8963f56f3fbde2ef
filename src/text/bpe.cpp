#include "text/bpe.h"

#include <queue>
#include <utility>

namespace llm {
namespace {

using Merge = MergeTable::Merge;

/// Up to here the lowest rank is looked for by a linear scan, which beats a heap on short pieces.
constexpr size_t kMaxScannedBytes = 48;

/// Merges `count` symbols (tokens) in place; returns how many are left. count² steps.
size_t merge_by_scanning(const MergeTable& merges, int32_t* symbols, size_t count) {
  Merge next[kMaxScannedBytes];  // next[i] joins symbols i and i + 1
  for (size_t i = 0; i + 1 < count; ++i) next[i] = merges.find(symbols[i], symbols[i + 1]);

  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == MergeTable::kNoRank) break;
    symbols[best] = next[best].result;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      next[i - 1] = next[i];
    }
    if (best > 0) next[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) next[best] = merges.find(symbols[best], symbols[best + 1]);
  }
  return count;
}

/// The same with a heap over a linked list, for long pieces: n log n steps.
class HeapMerger {
 public:
  HeapMerger(const MergeTable& merges, const std::vector<int32_t>& tokens) : merges_(merges) {
    symbols_.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      symbols_.push_back({tokens[i],
                          static_cast<int64_t>(i) - 1,
                          static_cast<int64_t>(i) + 1,
                          {MergeTable::kNoRank, kNoToken}});
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
                                       : merges_.find(symbol.token, symbols_[symbol.next].token);
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

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

MergeTable::MergeTable(size_t num_merges) : shift_(60) {
  size_t capacity = 16;
  while (capacity / 3 * 2 < num_merges + 1) {
    capacity *= 2;
    --shift_;
  }
  slots_.resize(capacity);
}

bool MergeTable::add(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[slot_for(left, right)];
  if (slot.left != kNoToken) return false;
  slot = {left, right, merge};
  return true;
}

Bpe::Bpe(const Vocabulary& vocabulary, MergeTable merges, Options options)
    : vocabulary_(&vocabulary),
      merges_(std::move(merges)),
      options_(options),
      whole_(std::make_unique<std::atomic<Whole>[]>(vocabulary.num_ids())) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = vocabulary.find({&c, 1});
    byte_ids_[byte] = id != kNoToken ? id : options.unknown_token;
  }
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_->find(piece);
  if (id != kNoToken && (options_.ignore_merges || merges_to_itself(id, piece))) {
    ids.push_back(id);
  } else {
    append_merged(piece, ids);
  }
}

bool Bpe::merges_to_itself(int32_t id, std::string_view piece) const {
  Whole whole = whole_[id].load(std::memory_order_relaxed);
  if (whole == Whole::kUnknown) {
    std::vector<int32_t> ids;
    append_merged(piece, ids);
    whole = ids.size() == 1 && ids[0] == id ? Whole::kYes : Whole::kNo;
    whole_[id].store(whole, std::memory_order_relaxed);
  }
  return whole == Whole::kYes;
}

void Bpe::append_merged(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t begin = ids.size();
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id != kNoToken) ids.push_back(id);
  }
  const size_t count = ids.size() - begin;
  if (count <= kMaxScannedBytes) {
    ids.resize(begin + merge_by_scanning(merges_, ids.data() + begin, count));
    return;
  }
  const std::vector<int32_t> tokens(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end());
  ids.resize(begin);
  HeapMerger(merges_, tokens).append_to(ids);
}

}  // namespace llm
