// Stop strings across any pieces of text.
#include "text/stop_strings.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace llm {
namespace {

struct Case {
  std::vector<std::string> stops;
  std::string text;
  std::string printed;
  bool stopped;
};

}  // namespace

TEST_CASE("the first stop string ends the text, in whatever pieces it comes") {
  for (const Case& c : {
           Case{{"GHIJ"}, "ABCDEFGHIJ", "ABCDEF", true},
           Case{{"GHIJ"}, "ABCDEFGHI", "ABCDEFGHI", false},
           Case{{"GHIJ"}, "GHGHGHIJK", "GHGH", true},
           Case{{"aab"}, "aaab", "a", true},
           Case{{"abc", "b"}, "xabc", "x", true},
           Case{{"abcd", "bc"}, "xabcx", "xa", true},
           Case{{"ab", "abcd"}, "xabcd", "x", true},
           Case{{"ab", "abcd"}, "xab", "x", true},
           Case{{"b", "abc"}, "abd", "a", true},
           Case{{"\n\n"}, "a\nb\n\nc", "a\nb", true},
           Case{{"。"}, "好。不", "好", true},
           Case{{""}, "abc", "abc", false},
           Case{{}, "abc", "abc", false},
       }) {
    for (size_t size = 1; size <= c.text.size(); ++size) {
      StopStrings stops(c.stops);
      std::string printed;
      for (size_t pos = 0; pos < c.text.size(); pos += size) {
        printed += stops.push(std::string_view(c.text).substr(pos, size));
      }
      printed += stops.finish();
      CAPTURE(c.text);
      CAPTURE(size);
      CHECK(printed == c.printed);
      CHECK(stops.stopped() == c.stopped);
    }
  }
}

TEST_CASE("only a possible beginning is held back") {
  StopStrings stops({"GHIJ"});
  CHECK(stops.push("ABCDEFGHI") == "ABCDEF");
  CHECK_FALSE(stops.stopped());
  CHECK(stops.push("K") == "GHIK");
  CHECK(stops.push("G") == "");
  CHECK(stops.push("HIJ more") == "");
  CHECK(stops.stopped());
  CHECK(stops.push("after") == "");
  CHECK(stops.finish() == "");
}

TEST_CASE("a longer stop string that can still come is waited for") {
  StopStrings stops({"ab", "abcd"});
  CHECK(stops.push("xab") == "x");
  CHECK_FALSE(stops.stopped());
  CHECK(stops.push("e") == "");
  CHECK(stops.stopped());
}

}  // namespace llm
