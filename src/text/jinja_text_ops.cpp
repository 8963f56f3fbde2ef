// Operations on texts that keep every character's origin.
#include <fmt/format.h>

#include <algorithm>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

Text strip(const Text& text, const Text* characters, bool left, bool right) {
  const std::string_view bytes = text.view();
  const auto goes = [&](size_t pos) {
    const CodePoint c = code_point_at(bytes, pos);
    if (characters == nullptr) return is_python_space(c.value);
    for (size_t i = 0; i < characters->size();) {
      const CodePoint candidate = code_point_at(characters->view(), i);
      if (candidate.value == c.value) return true;
      i += candidate.length;
    }
    return false;
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end && goes(begin)) begin += code_point_at(bytes, begin).length;
  while (right && begin < end) {
    const size_t last = previous_code_point(bytes, end);
    if (!goes(last)) break;
    end = last;
  }
  return text.slice(begin, end);
}

namespace {

/// Python's replace() of the empty text: `to` before every character and at the end.
Text insert_everywhere(const Text& text, const Text& to, int64_t count) {
  Text result;
  size_t pos = 0;
  while (true) {
    if (count != 0) {
      result.append(to);
      --count;
    }
    if (pos >= text.size()) return result;
    const size_t length = code_point_at(text.view(), pos).length;
    result.append_range(text, pos, pos + length);
    pos += length;
  }
}

}  // namespace

Text replace(const Text& text, const Text& from, const Text& to, int64_t count) {
  if (from.empty()) return insert_everywhere(text, to, count);
  Text result;
  size_t pos = 0;
  for (; count != 0; --count) {
    const size_t found = text.str().find(from.str(), pos);
    if (found == std::string::npos) break;
    result.append_range(text, pos, found);
    result.append(to);
    pos = found + from.size();
  }
  result.append_range(text, pos, text.size());
  return result;
}

namespace {

void check_separator(const Text& separator) {
  if (separator.empty()) throw ValueError("empty separator");
}

std::vector<Value> split_at_space(const Text& text, int64_t max_splits) {
  const std::string_view bytes = text.view();
  const auto is_space = [&](size_t pos) {
    return is_python_space(code_point_at(bytes, pos).value);
  };
  std::vector<Value> parts;
  size_t pos = 0;
  while (true) {
    while (pos < bytes.size() && is_space(pos)) pos += code_point_at(bytes, pos).length;
    if (pos >= bytes.size()) return parts;
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(Value(strip(text.slice(pos, bytes.size()), nullptr, false, true)));
      return parts;
    }
    const size_t begin = pos;
    while (pos < bytes.size() && !is_space(pos)) pos += code_point_at(bytes, pos).length;
    parts.push_back(Value(text.slice(begin, pos)));
  }
}

}  // namespace

std::vector<Value> split(const Text& text, const Text* separator, int64_t max_splits) {
  if (separator == nullptr) return split_at_space(text, max_splits);
  check_separator(*separator);
  std::vector<Value> parts;
  size_t pos = 0;
  for (; max_splits != 0; --max_splits) {
    const size_t found = text.str().find(separator->str(), pos);
    if (found == std::string::npos) break;
    parts.push_back(Value(text.slice(pos, found)));
    pos = found + separator->size();
  }
  parts.push_back(Value(text.slice(pos, text.size())));
  return parts;
}

std::vector<Value> split_from_right(const Text& text, const Text* separator, int64_t max_splits) {
  if (max_splits < 0) return split(text, separator, -1);
  std::vector<Value> parts;
  if (separator == nullptr) {
    Text rest = strip(text, nullptr, false, true);
    while (!rest.empty() && static_cast<int64_t>(parts.size()) < max_splits) {
      size_t begin = rest.size();
      while (begin > 0) {
        const size_t previous = previous_code_point(rest.view(), begin);
        if (is_python_space(code_point_at(rest.view(), previous).value)) break;
        begin = previous;
      }
      parts.push_back(Value(rest.slice(begin, rest.size())));
      rest = strip(rest.slice(0, begin), nullptr, false, true);
    }
    rest = strip(rest, nullptr, true, false);
    if (!rest.empty()) parts.push_back(Value(rest));
  } else {
    check_separator(*separator);
    size_t end = text.size();
    for (; max_splits != 0; --max_splits) {
      const size_t found = end < separator->size()
                               ? std::string::npos
                               : text.str().rfind(separator->str(), end - separator->size());
      if (found == std::string::npos) break;
      parts.push_back(Value(text.slice(found + separator->size(), end)));
      end = found;
    }
    parts.push_back(Value(text.slice(0, end)));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const CodePoint c = code_point_at(bytes, pos);
    size_t after = pos + c.length;
    const bool is_end = (c.value >= 0x0A && c.value <= 0x0D) ||
                        (c.value >= 0x1C && c.value <= 0x1E) || c.value == 0x85 ||
                        c.value == 0x2028 || c.value == 0x2029;
    if (is_end) {
      if (c.value == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.push_back(Value(text.slice(begin, keep_ends ? after : pos)));
      begin = after;
    }
    pos = after;
  }
  if (begin < bytes.size()) lines.push_back(Value(text.slice(begin, bytes.size())));
  return lines;
}

namespace {

void append_upper(std::string& out, char32_t c, bool title) {
  if (c == 0xDF) {
    out += title ? "Ss" : "SS";
  } else {
    append_utf8(out, to_upper(c));
  }
}

}  // namespace

Text change_case(const Text& text, Case to) {
  Text result;
  bool after_cased = false;  // the character before has a case
  bool first = true;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text.view(), pos);
    const bool upper = to == Case::kUpper || (to == Case::kTitle && !after_cased) ||
                       (to == Case::kCapitalize && first) ||
                       (to == Case::kSwap && to_lower(c.value) == c.value);
    std::string changed;
    if (upper) {
      append_upper(changed, c.value, to == Case::kTitle || to == Case::kCapitalize);
    } else {
      append_utf8(changed, to_lower(c.value));
    }
    result.append(changed, text.origin_at(pos));
    after_cased = is_cased(c.value);
    first = false;
    pos += c.length;
  }
  return result;
}

Text join(const std::vector<Value>& items, const Text& separator) {
  Text result;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result.append(separator);
    result.append(to_text(items[i]));
  }
  return result;
}

Text repeat(const Text& text, int64_t n) {
  Text result;
  if (text.empty()) return result;
  for (int64_t i = 0; i < n; ++i) result.append(text);
  return result;
}

Text pad(const Text& text, int64_t width, Align align, const Text& fill) {
  const int64_t missing = width - static_cast<int64_t>(count_code_points(text.view()));
  if (missing <= 0) return text;
  // Python's center() puts the odd blank left of an even width.
  const int64_t center_left = missing / 2 + (missing & width & 1);
  const int64_t left = align == Align::kLeft ? 0 : align == Align::kRight ? missing : center_left;
  Text result = repeat(fill, left);
  result.append(text);
  result.append(repeat(fill, missing - left));
  return result;
}

}  // namespace llm::jinja
