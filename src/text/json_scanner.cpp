#include "text/json_scanner.h"

namespace llm {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

JsonObjectScanner::Status JsonObjectScanner::push(char byte) {
  const bool fits = step(byte);
  ++position_;
  if (!fits) return Status::kBroken;
  return state_ == State::kAfter && open_.empty() ? Status::kDone : Status::kMore;
}

bool JsonObjectScanner::step(char byte) {
  switch (state_) {
    case State::kStart:
      return is_blank(byte) || (byte == '{' && open(byte));
    case State::kFirstKey:
    case State::kKey:
      if (is_blank(byte)) return true;
      if (byte == '}' && state_ == State::kFirstKey) return close(byte);
      if (byte != '"') return false;
      string_is_key_ = true;
      if (open_.size() == 1) member_.key_begin = position_;
      state_ = State::kString;
      return true;
    case State::kColon:
      if (byte == ':') state_ = State::kValue;
      return is_blank(byte) || byte == ':';
    case State::kFirstItem:
      if (byte == ']') return close(byte);
      return is_blank(byte) || begin_value(byte);
    case State::kValue:
      return is_blank(byte) || begin_value(byte);
    case State::kAfter:
      return step_after(byte);
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return step_string(byte);
    case State::kWord:
      if (byte != *word_) return false;
      if (*++word_ == '\0') end_value(position_ + 1);
      return true;
    default:
      return step_number(byte);
  }
}

bool JsonObjectScanner::begin_value(char byte) {
  if (open_.size() == 1) member_.value_begin = position_;
  if (is_digit(byte)) {
    state_ = byte == '0' ? State::kZero : State::kInteger;
    return true;
  }
  switch (byte) {
    case '{':
    case '[':
      return open(byte);
    case '"':
      string_is_key_ = false;
      state_ = State::kString;
      return true;
    case '-':
      state_ = State::kMinus;
      return true;
    case 't':
      word_ = "rue";
      break;
    case 'f':
      word_ = "alse";
      break;
    case 'n':
      word_ = "ull";
      break;
    default:
      return false;
  }
  state_ = State::kWord;
  return true;
}

bool JsonObjectScanner::open(char bracket) {
  if (open_.size() == kMaxDepth) return false;
  open_ += bracket;
  state_ = bracket == '{' ? State::kFirstKey : State::kFirstItem;
  return true;
}

bool JsonObjectScanner::close(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '[')) return false;
  open_.pop_back();
  end_value(position_ + 1);
  return true;
}

bool JsonObjectScanner::step_after(char byte) {
  if (is_blank(byte)) return true;
  if (byte == '}' || byte == ']') return close(byte);
  if (byte != ',') return false;
  state_ = open_.back() == '{' ? State::kKey : State::kValue;
  return true;
}

bool JsonObjectScanner::step_string(char byte) {
  if (state_ == State::kEscape) {
    hex_digits_ = 0;
    state_ = byte == 'u' ? State::kHex : State::kString;
    return byte != '\0' && std::string_view("\"\\/bfnrtu").find(byte) != std::string_view::npos;
  }
  if (state_ == State::kHex) {
    if (++hex_digits_ == 4) state_ = State::kString;
    return is_hex(byte);
  }
  if (byte == '\\') {
    state_ = State::kEscape;
  } else if (byte == '"' && string_is_key_) {
    if (open_.size() == 1) member_.key_end = position_ + 1;
    state_ = State::kColon;
  } else if (byte == '"') {
    end_value(position_ + 1);
  }
  return static_cast<unsigned char>(byte) >= 0x20;  // control characters must be escaped
}

bool JsonObjectScanner::step_number(char byte) {
  const bool digit = is_digit(byte);
  const bool exponent = byte == 'e' || byte == 'E';
  switch (state_) {
    case State::kMinus:
      state_ = byte == '0' ? State::kZero : State::kInteger;
      return digit;
    case State::kPoint:
      state_ = State::kFraction;
      return digit;
    case State::kExponent:
      state_ = digit ? State::kExponentDigits : State::kExponentSign;
      return digit || byte == '+' || byte == '-';
    case State::kExponentSign:
      state_ = State::kExponentDigits;
      return digit;
    default:
      break;  // the number may end here
  }
  if (digit && state_ != State::kZero) return true;
  if (exponent && state_ != State::kExponentDigits) {
    state_ = State::kExponent;
    return true;
  }
  if (byte == '.' && (state_ == State::kZero || state_ == State::kInteger)) {
    state_ = State::kPoint;
    return true;
  }
  end_value(position_);
  return step_after(byte);
}

void JsonObjectScanner::end_value(size_t end) {
  state_ = State::kAfter;
  if (open_.size() != 1) return;
  member_.value_end = end;
  members_.push_back(member_);
}

}  // namespace llm
