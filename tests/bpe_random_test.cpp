// Encoding with random vocabularies, beside the plainest form of the algorithm.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/bpe.h"
#include "text/merger.h"
#include "text/qwen_scanner.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Random = std::mt19937;

size_t below(Random& random, size_t limit) { return random() % limit; }

/// A vocabulary of all bytes and of what random merges give.
struct RandomVocabulary {
  struct Pair {
    int32_t left, right;
    bool operator==(const Pair&) const = default;
  };

  /// The ranks follow the order in which tokens came to be, or are `shuffled`.
  RandomVocabulary(Random& random, const std::vector<std::string>& alphabet, size_t num_merges,
                   bool shuffled) {
    std::vector<int32_t> parts;  // what merges are made of
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      vocabulary.add(byte, {&c, 1});
    }
    for (const std::string& character : alphabet) {
      for (const char c : character) parts.push_back(static_cast<unsigned char>(c));
      // Most characters are whole tokens, some are not.
      int32_t token = static_cast<unsigned char>(character[0]);
      for (size_t i = 1; i < character.size() && below(random, 8) > 0; ++i) {
        token = add({token, static_cast<unsigned char>(character[i])});
        parts.insert(parts.end(), 4, token);
      }
    }
    while (pairs.size() < num_merges) {
      parts.push_back(
          add({parts[below(random, parts.size())], parts[below(random, parts.size())]}));
    }
    if (shuffled) std::shuffle(pairs.begin(), pairs.end(), random);
  }

  /// Adds a merge if it's new; returns its result.
  int32_t add(Pair pair) {
    const std::string both =
        std::string(vocabulary.bytes_of(pair.left)) + std::string(vocabulary.bytes_of(pair.right));
    int32_t result = vocabulary.find(both);
    if (result == kNoToken) {
      result = vocabulary.num_ids();
      vocabulary.add(result, both);
    }
    if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) pairs.push_back(pair);
    return result;
  }

  MergeTable merges() const {
    MergeTable table(pairs.size());
    for (const Pair& pair : pairs) {
      const auto rank = static_cast<uint32_t>(&pair - pairs.data());
      table.add(pair.left, pair.right, {rank, result(pair)});
    }
    return table;
  }
  int32_t result(Pair pair) const {
    return vocabulary.find(std::string(vocabulary.bytes_of(pair.left)) +
                           std::string(vocabulary.bytes_of(pair.right)));
  }

  Vocabulary vocabulary;
  std::vector<Pair> pairs;  // in order of their ranks
};

/// Again and again the leftmost pair of the lowest rank.
std::vector<int32_t> plainly_merged(const RandomVocabulary& random_vocabulary,
                                    std::string_view text) {
  std::unordered_map<uint64_t, std::pair<size_t, int32_t>> merges;
  const auto key = [](int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  };
  for (size_t rank = 0; rank < random_vocabulary.pairs.size(); ++rank) {
    const auto pair = random_vocabulary.pairs[rank];
    merges[key(pair.left, pair.right)] = {rank, random_vocabulary.result(pair)};
  }
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    std::pair<size_t, int32_t> best = {merges.size(), kNoToken};
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find(key(ids[i], ids[i + 1]));
      if (found != merges.end() && found->second.first < best.first) {
        best = found->second;
        at = i;
      }
    }
    if (best.second == kNoToken) return ids;
    ids[at] = best.second;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::string random_text(Random& random, const std::vector<std::string>& alphabet, size_t length) {
  std::string text;
  const size_t unit = 1 + below(random, 6);  // some texts repeat themselves
  const bool repeats = below(random, 3) == 0;
  for (size_t i = 0; i < length; ++i) {
    text +=
        repeats ? alphabet[i % unit % alphabet.size()] : alphabet[below(random, alphabet.size())];
  }
  return text;
}

}  // namespace

TEST_CASE("random vocabularies and texts give what plain merging gives") {
  const std::vector<std::vector<std::string>> alphabets = {
      {"a", "b"},
      {"a", "b", "c", " "},
      {"a", "\u00e9", "\u00e8", "\u0416"},
      {"\u4e2d", "\u4e2e", "\u6587", "\u5b57", "\u5b58", "a", "\u3002"},
      {"\u4e00", "\U00020000", "\U0001f600", "\u0301", "x"}};
  size_t num_texts = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Random random(seed);
    const std::vector<std::string>& alphabet = alphabets[seed % alphabets.size()];
    RandomVocabulary random_vocabulary(random, alphabet, 5 + below(random, 60), seed % 3 == 0);
    const Bpe bpe(random_vocabulary.vocabulary, random_vocabulary.merges(), {});
    const MergeRules rules(random_vocabulary.vocabulary, random_vocabulary.merges(), kNoToken);
    std::vector<int32_t> ids;
    for (size_t length = 1; length < 400; length += 1 + length / 4) {
      for (int round = 0; round < 2; ++round) {  // the second one finds what is remembered
        const std::string text = random_text(random, alphabet, length);
        ids.clear();
        Bpe::Encoder encoder(bpe, ids);
        encoder.add(text, text.size());
        encoder.finish();
        CAPTURE(seed);
        CAPTURE(text);
        const std::vector<int32_t> expected = plainly_merged(random_vocabulary, text);
        REQUIRE(ids == expected);
        // Small windows are hard to join, and one too large for a stretch is merged by a heap.
        for (const size_t window : {4, 8, 16, 64, 512}) {
          ids.clear();
          append_merged(rules, text, ids, window);
          CAPTURE(window);
          REQUIRE(ids == expected);
        }
        ++num_texts;
      }
    }
  }
  MESSAGE(num_texts << " texts");
}

TEST_CASE("Qwen's scanner finds words at eight letters a step as one by one") {
  const std::vector<std::string> alphabet = {"a",      "Z",      "m",      "{",      "@",  "`",
                                             "[",      "'",      "s",      " ",      "\n", "1",
                                             "\u00e9", "\u4e2d", "\u0301", "\u3000", "-"};
  Random random(3);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, alphabet, 1 + below(random, 40));
    size_t letters = 0;
    while (letters < text.size()) {
      const CodePoint c = code_point_at(text, letters);
      if (char_class(c.value) != CharClass::kLetter) break;
      letters += c.length;
    }
    REQUIRE(end_of_letters(text, 0) == letters);
  }
}

}  // namespace llm
