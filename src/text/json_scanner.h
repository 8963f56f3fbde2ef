// Checks one JSON object byte by byte as it arrives, and finds where its members lie.
//
// For text whose end isn't known yet: a model's tool call, where only the grammar tells whether a
// marker is the end of the call or a part of some string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

class JsonObjectScanner {
 public:
  enum class Status {
    kMore,    // a beginning of an object so far
    kDone,    // the byte was its last one; no more may be pushed
    kBroken,  // no JSON object begins like this; no more may be pushed
  };

  /// Bytes of a member, counted from the first byte pushed. The key's range has its quotes.
  struct Member {
    size_t key_begin = 0, key_end = 0;
    size_t value_begin = 0, value_end = 0;
  };

  static constexpr size_t kMaxDepth = 128;

  /// Takes the next byte of UTF-8 text. White space before the object is allowed.
  Status push(char byte);

  /// Of the outermost object, in order, as far as they are complete.
  const std::vector<Member>& members() const { return members_; }

 private:
  enum class State {
    kStart,
    kFirstKey,   // a key or }
    kKey,        // a key
    kColon,      // :
    kFirstItem,  // a value or ]
    kValue,      // a value
    kAfter,      // , or the end of what is open
    kString,
    kEscape,  // after a backslash
    kHex,     // digits after \u
    kMinus,   // a digit must follow
    kZero,    // a number that began with 0
    kInteger,
    kPoint,  // a digit must follow
    kFraction,
    kExponent,      // a sign or a digit must follow
    kExponentSign,  // a digit must follow
    kExponentDigits,
    kWord,  // the rest of true, false or null
  };

  bool step(char byte);
  bool begin_value(char byte);
  bool open(char bracket);
  bool close(char bracket);
  bool step_after(char byte);
  bool step_string(char byte);
  bool step_number(char byte);
  void end_value(size_t end);

  State state_ = State::kStart;
  std::string open_;  // brackets, outermost first
  bool string_is_key_ = false;
  int hex_digits_ = 0;
  const char* word_ = "";
  size_t position_ = 0;  // of the byte in step()
  std::vector<Member> members_;
  Member member_;
};

}  // namespace llm
