#include "vt_screen.h"

#include <algorithm>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "text/utf8.h"

namespace llm {
namespace {

template <typename Rows>
std::string text_of(const Rows& row) {
  std::string text;
  size_t end = row.size();
  while (end > 0 && row[end - 1].text == " ") --end;
  bool dim = false;
  for (size_t i = 0; i < end; ++i) {
    if (row[i].dim != dim) text += dim ? "}" : "{";
    dim = row[i].dim;
    text += row[i].text;
  }
  return text + (dim ? "}\n" : "\n");
}

}  // namespace

VtScreen::VtScreen(int rows, int columns) : rows_(rows), columns_(columns) {
  screen_.assign(static_cast<size_t>(rows), blank_row());
}

void VtScreen::resize(int rows, int columns) {
  columns_ = columns;
  for (Row& row : screen_) row.resize(static_cast<size_t>(columns));
  while (rows_ > rows) {
    scrolled_ += text_of(screen_.front());
    screen_.erase(screen_.begin());
    --rows_;
    y_ = std::max(0, y_ - 1);
  }
  rows_ = rows;
  screen_.resize(static_cast<size_t>(rows), blank_row());
  x_ = std::min(x_, columns_ - 1);
}

std::string VtScreen::text() const {
  std::string text;
  for (const Row& row : screen_) text += text_of(row);
  text = scrolled_ + text;
  while (text.ends_with("\n\n")) text.pop_back();
  return text == "\n" ? "" : text;
}

void VtScreen::line_feed() {
  if (++y_ < rows_) return;
  scrolled_ += text_of(screen_.front());
  screen_.erase(screen_.begin());
  screen_.push_back(blank_row());
  --y_;
}

void VtScreen::put(std::string_view character) {
  const auto c = static_cast<wchar_t>(code_point_at(character, 0).value);
  const int width = std::max(0, ::wcwidth(c));
  if (width == 0) {
    int at = std::min(x_, columns_) - 1;
    while (at > 0 && row()[static_cast<size_t>(at)].text.empty()) --at;
    if (at >= 0) row()[static_cast<size_t>(at)].text += character;
    return;
  }
  if (x_ + width > columns_) {
    x_ = 0;
    line_feed();
  }
  const auto at = row().begin() + x_;
  if (insert_) std::rotate(at, row().end() - width, row().end());
  row()[static_cast<size_t>(x_)] = {std::string(character), dim_};
  if (width == 2) row()[static_cast<size_t>(x_ + 1)] = {"", dim_};
  x_ += width;
}

void VtScreen::write(std::string_view bytes) {
  const std::string all = std::exchange(pending_, {}) + std::string(bytes);
  for (std::string_view rest = all; !rest.empty();) {
    size_t used = 1;
    if (rest[0] == '\x1b') {
      used = take_sequence(rest);
    } else if (rest[0] == '\r') {
      x_ = 0;
    } else if (rest[0] == '\n') {
      line_feed();
    } else if (rest[0] == '\b') {
      x_ = std::max(0, std::min(x_, columns_ - 1) - 1);
    } else if (rest[0] == '\t') {
      x_ = std::min(columns_ - 1, (x_ / 8 + 1) * 8);
    } else if (rest[0] == '\a') {
      // nothing to see
    } else if (static_cast<unsigned char>(rest[0]) < 0x20) {
      unknown_ += rest[0];
    } else {
      const Utf8Part part = first_utf8_part(rest);
      used = part.kind == Utf8Part::Kind::kIncomplete ? 0 : part.length;
      if (part.kind == Utf8Part::Kind::kCharacter) put(rest.substr(0, used));
      if (part.kind == Utf8Part::Kind::kIllFormed) unknown_ += rest[0];
    }
    if (used == 0) {
      pending_ = rest;
      return;
    }
    rest.remove_prefix(used);
  }
}

/// Bytes of the escape sequence; 0 if it isn't complete.
size_t VtScreen::take_sequence(std::string_view rest) {
  if (rest.size() < 2) return 0;
  if (rest[1] != '[') {
    unknown_ += rest.substr(0, 2);
    return 2;
  }
  size_t end = 2;
  while (end < rest.size() && (rest[end] < 0x40 || rest[end] > 0x7e)) ++end;
  if (end == rest.size()) return 0;
  obey(rest.substr(2, end - 2), rest[end]);
  return end + 1;
}

void VtScreen::private_mode(std::string_view parameters, bool set) {
  if (parameters == "4") {
    insert_ = set;
  } else if (parameters == "?2004") {
    bracketed_paste_ = set;
  } else {
    unknown_ += parameters;
  }
}

void VtScreen::erase_line(int from, int to) {
  for (int x = from; x < to; ++x) row()[static_cast<size_t>(x)] = {};
}

void VtScreen::obey(std::string_view parameters, char final) {
  const int number = std::atoi(std::string(parameters).c_str());
  const int count = std::max(1, number);
  x_ = std::min(x_, columns_ - 1);
  const auto at = row().begin() + x_;
  const auto room = std::min<ptrdiff_t>(count, row().end() - at);
  switch (final) {
    case 'A':
      y_ = std::max(0, y_ - count);
      break;
    case 'B':
      y_ = std::min(rows_ - 1, y_ + count);
      break;
    case 'C':
      x_ = std::min(columns_ - 1, x_ + count);
      break;
    case 'D':
      x_ = std::max(0, x_ - count);
      break;
    case 'G':
      x_ = std::min(columns_, count) - 1;
      break;
    case 'H':
      if (!parameters.empty()) unknown_ += "H";
      x_ = y_ = 0;
      break;
    case 'J':
      if (number == 0) erase_line(x_, columns_);
      for (int y = number == 2 ? 0 : y_ + 1; y < rows_; ++y) {
        screen_[static_cast<size_t>(y)] = blank_row();
      }
      break;
    case 'K':
      erase_line(x_, columns_);
      break;
    case 'P':
      std::rotate(at, at + room, row().end());
      erase_line(columns_ - static_cast<int>(room), columns_);
      break;
    case '@':
      std::rotate(at, row().end() - room, row().end());
      erase_line(x_, x_ + static_cast<int>(room));
      break;
    case 'm':
      dim_ = parameters == "2";
      if (!dim_ && !parameters.empty() && parameters != "0") unknown_ += "m";
      break;
    case 'h':
    case 'l':
      private_mode(parameters, final == 'h');
      break;
    default:
      unknown_ += final;
  }
}

}  // namespace llm
