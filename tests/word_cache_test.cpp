// The tables of words that were encoded before, beside a plain map.
#include "text/word_cache.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace llm {
namespace {

using Random = std::mt19937;

std::string random_word(Random& random, size_t length) {
  std::string word(length, '\0');
  for (char& byte : word) byte = static_cast<char>(random() % 3);
  return word;
}

std::vector<int32_t> random_tokens(Random& random, size_t count) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kMaxTokenIds);
  return tokens;
}

}  // namespace

TEST_CASE("the table of short words knows what was put in, or nothing") {
  Random random(1);
  ShortWordTable table;
  std::map<std::string, std::vector<int32_t>> words;
  size_t num_found = 0, num_asked = 0;
  for (int round = 0; round < 300000; ++round) {
    const std::string word = random_word(random, 1 + random() % ShortWordTable::kMaxBytes);
    const auto key = ShortWordTable::key_of(ShortBytes::of(word));
    ShortWordTable::Tokens tokens;
    const bool found = table.find(key, table.place_of(key), tokens);
    const auto known = words.find(word);
    if (known == words.end()) {
      REQUIRE_FALSE(found);
      words[word] = random_tokens(random, 1 + random() % ShortWordTable::kMaxTokens);
    } else {
      ++num_asked;
      num_found += found;
      if (found) {
        REQUIRE(std::vector(tokens.ids.begin(), tokens.ids.begin() + tokens.count()) ==
                known->second);
      }
    }
    if (!found) table.add(key, words[word]);
  }
  CHECK(num_found > num_asked / 2);
  ShortWordTable::Tokens tokens;
  for (uint32_t place = 0; place < 128; ++place) {
    CHECK_FALSE(table.find(ShortWordTable::kNoKey, place, tokens));
  }
}

TEST_CASE("the table of long words knows what was put in, or nothing, also when it overflows") {
  Random random(2);
  LongWordTable table;
  std::map<std::string, std::vector<int32_t>> words;
  size_t num_found = 0, num_asked = 0, num_forgotten = 0;
  for (int round = 0; round < 300000; ++round) {
    const bool again = !words.empty() && random() % 2 == 0;
    const std::string word = again ? words.begin()->first : random_word(random, 1 + random() % 255);
    const uint32_t hash = LongWordTable::hash_of(word);
    const auto tokens = table.find(word, hash);
    const auto known = words.find(word);
    if (known == words.end()) {
      REQUIRE(tokens.empty());
      words[word] = random_tokens(random, 1 + random() % word.size());
    } else {
      ++num_asked;
      num_found += !tokens.empty();
      num_forgotten += tokens.empty();
      if (!tokens.empty()) {
        REQUIRE(std::vector(tokens.begin(), tokens.end()) == known->second);
      }
    }
    if (tokens.empty()) table.add(word, hash, words[word]);
  }
  CHECK(num_found > num_asked / 2);
  CHECK(num_forgotten > 0);
}

TEST_CASE("words of one hash are told apart") {
  LongWordTable table;
  const std::vector<int32_t> first = {1}, second = {2, 3};
  table.add("one word", 7, first);
  table.add("two words", 7, second);
  CHECK(table.find("one word", 7)[0] == 1);
  CHECK(table.find("two words", 7).size() == 2);
  CHECK(table.find("no words", 7).empty());
}

}  // namespace llm
