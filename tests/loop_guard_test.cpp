// Which answers count as endless repetition.
#include "engine/loop_guard.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace llm {
namespace {

/// How many ids of the text go in before the guard trips; -1 if it doesn't.
int64_t trips_at(const std::vector<int32_t>& ids) {
  LoopGuard guard;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (guard.push(ids[i])) return static_cast<int64_t>(i) + 1;
  }
  return -1;
}

std::vector<int32_t> repeated(int32_t period, int times) {
  std::vector<int32_t> ids;
  for (int i = 0; i < times; ++i) {
    for (int32_t k = 0; k < period; ++k) ids.push_back(1000 + k);
  }
  return ids;
}

TEST_CASE("loop guard: periods and how long each may go on") {
  CHECK(trips_at(repeated(1, 5000)) == 1024);
  CHECK(trips_at(repeated(3, 5000)) == 1024);
  CHECK(trips_at(repeated(20, 500)) == 64 * 20);
  CHECK(trips_at(repeated(100, 100)) == 2048);
  CHECK(trips_at(repeated(512, 20)) == 2048);
  CHECK(trips_at(repeated(513, 20)) == -1);
}

TEST_CASE("loop guard: it says what repeats") {
  LoopGuard guard;
  for (const int32_t id : repeated(20, 64)) guard.push(id);
  REQUIRE(guard.found());
  CHECK(guard.found()->period == 20);
  CHECK(guard.found()->times == 64);
  CHECK(guard.push(7));  // and stays with it
}

TEST_CASE("loop guard: a beginning doesn't hide a loop, an interruption starts the count anew") {
  std::vector<int32_t> ids(700);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const std::vector<int32_t> loop = repeated(10, 103);  // 1030 ids
  ids.insert(ids.end(), loop.begin(), loop.end());
  CHECK(trips_at(ids) == 700 + 1024);

  std::vector<int32_t> broken = repeated(10, 100);
  broken.push_back(5);
  const std::vector<int32_t> again = repeated(10, 100);
  broken.insert(broken.end(), again.begin(), again.end());
  CHECK(trips_at(broken) == -1);
}

TEST_CASE("loop guard: what people ask for passes") {
  CHECK(trips_at(repeated(2, 100)) == -1);  // ha ha ha
  CHECK(trips_at(repeated(18, 50)) == -1);  // a sentence fifty times
  CHECK(trips_at(repeated(40, 50)) == -1);
  std::vector<int32_t> counting;  // "1\n2\n3\n" ... digit by digit
  for (int i = 1; i < 2000; ++i) {
    for (const char digit : std::to_string(i)) counting.push_back(digit);
    counting.push_back('\n');
  }
  CHECK(trips_at(counting) == -1);
  std::vector<int32_t> table;  // rows of the same frame around other numbers
  for (int32_t row = 0; row < 200; ++row) {
    for (const int32_t id : {1, 2, 3, 4, 5, 6, 7, 8}) table.push_back(id);
    table.push_back(100 + row);
    for (int i = 0; i < 8; ++i) table.push_back(9);
  }
  CHECK(trips_at(table) == -1);
}

}  // namespace
}  // namespace llm
