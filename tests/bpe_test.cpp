// Merging, on small vocabularies whose result is plain to see.
#include "text/bpe.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace llm {
namespace {

struct Pair {
  std::string_view left, right;
};

/// A vocabulary of the single letters a to h (ids 0 to 7) and the results of the merges (8, 9, …).
class Letters {
 public:
  explicit Letters(const std::vector<Pair>& pairs, Bpe::Options options = {})
      : vocabulary_(vocabulary(pairs)), bpe_(vocabulary_, merges(vocabulary_, pairs), options) {}

  std::string encode(std::string_view piece) const {
    std::vector<int32_t> ids;
    Bpe::Encoder encoder(bpe_, ids);
    if (!piece.empty()) encoder.add(piece, piece.size());
    encoder.finish();
    std::string out;
    for (const int32_t id : ids)
      out.append(out.empty() ? "" : " ").append(vocabulary_.bytes_of(id));
    return out;
  }

 private:
  static Vocabulary vocabulary(const std::vector<Pair>& pairs) {
    Vocabulary v;
    for (const char c : std::string_view("abcdefgh")) v.add(v.num_ids(), {&c, 1});
    for (const Pair& p : pairs) v.add(v.num_ids(), std::string(p.left).append(p.right));
    return v;
  }
  static MergeTable merges(const Vocabulary& v, const std::vector<Pair>& pairs) {
    MergeTable table(pairs.size());
    uint32_t rank = 0;
    for (const auto& [left, right] : pairs) {
      const int32_t result = v.find(std::string(left).append(right));
      CHECK(table.add(v.find(left), v.find(right), {rank++, result}));
    }
    return table;
  }

  Vocabulary vocabulary_;
  Bpe bpe_;
};

/// The plainest form of the algorithm: again and again the leftmost pair of the lowest rank.
std::string naive(const std::vector<Pair>& pairs, std::string_view piece) {
  std::vector<std::string> symbols;
  for (const char c : piece) symbols.emplace_back(1, c);
  while (true) {
    size_t best_rank = pairs.size(), best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (pairs[rank].left == symbols[i] && pairs[rank].right == symbols[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == pairs.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::string out;
  for (const std::string& s : symbols) out.append(out.empty() ? "" : " ").append(s);
  return out;
}

}  // namespace

TEST_CASE("the lowest rank merges first, the leftmost of equals") {
  const Letters letters({{"b", "c"}, {"a", "b"}, {"a", "a"}});
  CHECK(letters.encode("abc") == "a bc");
  CHECK(letters.encode("aba") == "ab a");
  CHECK(letters.encode("aaa") == "aa a");
  CHECK(letters.encode("d") == "d");
  CHECK(letters.encode("") == "");
}

TEST_CASE("a token that its own bytes don't merge to is no shortcut, unless merges are ignored") {
  // "ab" is taken first, and then nothing joins "ab" and "c".
  const std::vector<Pair> pairs = {{"a", "b"}, {"b", "c"}, {"a", "bc"}};
  CHECK(Letters(pairs).encode("abc") == "ab c");
  CHECK(Letters(pairs).encode("abc") == "ab c");
  CHECK(Letters(pairs, {true, kNoToken}).encode("abc") == "abc");
}

TEST_CASE("bytes without a token give nothing, or the unknown token") {
  const std::vector<Pair> pairs = {{"a", "b"}};
  CHECK(Letters(pairs).encode("axb") == "ab");
  CHECK(Letters(pairs, {false, 7}).encode("axb") == "a h b");
}

TEST_CASE("short and long pieces equal the plain algorithm") {
  const std::vector<Pair> pairs = {{"a", "a"},  {"a", "b"},    {"b", "a"},   {"aa", "aa"},
                                   {"b", "b"},  {"ab", "ab"},  {"aa", "ba"}, {"bb", "aa"},
                                   {"c", "aa"}, {"aaba", "c"}, {"abab", "a"}};
  const Letters letters(pairs);
  uint32_t state = 7;
  for (size_t length = 1; length < 200; ++length) {
    std::string piece;
    for (size_t i = 0; i < length; ++i) {
      state = state * 1664525 + 1013904223;
      piece += "aaabbc"[(state >> 16) % 6];
    }
    REQUIRE(letters.encode(piece) == naive(pairs, piece));
  }
}

TEST_CASE("a pair has one merge, an id and some bytes one token") {
  MergeTable table(1);
  CHECK(table.add(1, 2, {0, 3}));
  CHECK_FALSE(table.add(1, 2, {1, 4}));
  CHECK(table.find(1, 2).result == 3);
  CHECK(table.find(2, 1).rank == MergeTable::kNoRank);

  Vocabulary v;
  CHECK(v.add(5, "x"));
  CHECK_FALSE(v.add(5, "y"));
  CHECK_FALSE(v.add(6, "x"));
  CHECK(v.add_unfindable(6, "x"));
  CHECK(v.find("x") == 5);
  CHECK(v.bytes_of(6) == "x");
  CHECK_FALSE(v.has(-1));
  CHECK_FALSE(v.has(4));
  CHECK(v.bytes_of(7) == "");
}

TEST_CASE("a vocabulary finds all of many tokens") {
  Vocabulary v;
  for (int32_t id = 0; id < 5000; ++id) REQUIRE(v.add(id, "token number " + std::to_string(id)));
  for (int32_t id = 0; id < 5000; ++id) {
    REQUIRE(v.find("token number " + std::to_string(id)) == id);
  }
  CHECK(v.find("token number 5000") == kNoToken);
}

}  // namespace llm
