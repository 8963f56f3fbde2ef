// str(), repr() and json.dumps() of Python.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/code_points.h"
#include "text/value.h"

namespace llm {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string result = std::signbit(value) ? "-" : "";
  if (text[0] == '-') text.remove_prefix(1);
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);

  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {  // the limits of Python's repr
    result += digits[0];
    if (count > 1) result += "." + digits.substr(1);
    return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return result + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

/// The text of a number or constant as Python prints it; nothing for other kinds.
std::string scalar_text(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_big_int()) return value.as_big_int();
  return float_repr(value.as_float());
}

std::string repr_escape(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  if (is_python_printable(c)) return "";
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  return fmt::format("\\U{:08x}", code);
}

void append_string_repr(Text& out, const Text& text) {
  const std::string& s = text.str();
  const bool has_single = s.find('\'') != std::string::npos;
  const char quote = has_single && s.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  size_t plain = 0;  // start of what was not copied yet
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = code_point_at(s, pos);
    std::string escape = repr_escape(c.value);
    if (c.value == static_cast<char32_t>(quote)) escape = {'\\', quote};
    if (!escape.empty()) {
      out.append_range(text, plain, pos);
      out.append(escape, text.origin_at(pos));
      plain = pos + c.length;
    }
    pos += c.length;
  }
  out.append_range(text, plain, s.size());
  out.append(std::string_view(&quote, 1));
}

void append_repr(Text& out, const Value& value);

void append_items(Text& out, const List& list) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", list.origin);
    append_repr(out, list.items[i]);
  }
}

void append_list_repr(Text& out, const List& list) {
  std::string_view open = "[", close = "]";
  switch (list.kind) {
    case ListKind::kTuple:
      open = "(";
      close = list.items.size() == 1 ? ",)" : ")";
      break;
    case ListKind::kKeys:
      open = "dict_keys([";
      close = "])";
      break;
    case ListKind::kValues:
      open = "dict_values([";
      close = "])";
      break;
    case ListKind::kItems:
      open = "dict_items([";
      close = "])";
      break;
    case ListKind::kGenerator:
      throw ValueError("a generator can't be printed: make it a list first (| list)");
    case ListKind::kRange:
    case ListKind::kList:
      break;
  }
  out.append(open, list.origin);
  append_items(out, list);
  out.append(close, list.origin);
}

void append_range_repr(Text& out, const List& list) {
  out.append(fmt::format("range({}, {}", list.range_start, list.range_stop));
  out.append(list.range_step == 1 ? ")" : fmt::format(", {})", list.range_step));
}

void append_dict_repr(Text& out, const Dict& dict) {
  out.append("{", dict.origin);
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.append(", ", dict.origin);
    first = false;
    append_repr(out, key);
    out.append(": ", dict.origin);
    append_repr(out, value);
  }
  out.append("}", dict.origin);
}

void append_repr(Text& out, const Value& value) {
  if (value.is_string()) return append_string_repr(out, value.as_text());
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_object()) return out.append(fmt::format("<{}>", value.as_object()->type_name()));
  if (value.is_list()) {
    const bool is_range = value.as_list().kind == ListKind::kRange;
    return is_range ? append_range_repr(out, value.as_list())
                    : append_list_repr(out, value.as_list());
  }
  if (value.is_dict()) return append_dict_repr(out, value.as_dict());
  out.append(scalar_text(value));
}

bool prints_as_json(const Value& value) {
  return (value.is_list() && value.as_list().print_as_json) ||
         (value.is_dict() && value.as_dict().print_as_json);
}

}  // namespace

Text to_text(const Value& value) {
  if (value.is_string()) return value.as_text();
  if (value.is_undefined()) return {};
  if (prints_as_json(value)) return to_json(value);
  return to_repr(value);
}

Text to_repr(const Value& value) {
  Text out;
  append_repr(out, value);
  return out;
}

namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonFormat& format, Text& out) : format_(format), out_(out) {}

  void write(const Value& value, int level) {
    if (value.is_string()) return write_string(value.as_text());
    if (value.is_dict()) return write_dict(value.as_dict(), level);
    if (value.is_list() &&
        (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple)) {
      return write_list(value.as_list(), level);
    }
    if (value.is_none() || value.is_number()) return out_.append(number_or_constant(value));
    throw ValueError(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
  }

 private:
  static std::string number_or_constant(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (!value.is_float()) return scalar_text(value);
    const double d = value.as_float();
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return float_repr(d);
  }

  std::string escape(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto code = static_cast<uint32_t>(c);
    if (code >= 0x20 && (code < 0x7F || !format_.ensure_ascii)) return "";
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    const uint32_t high = 0xD800 + ((code - 0x10000) >> 10);
    return fmt::format("\\u{:04x}\\u{:04x}", high, 0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  void write_string(const Text& text) {
    out_.append("\"");
    const std::string& s = text.str();
    size_t plain = 0;  // start of what was not copied yet
    for (size_t pos = 0; pos < s.size();) {
      const CodePoint c = code_point_at(s, pos);
      const std::string escaped = escape(c.value);
      if (!escaped.empty()) {
        out_.append_range(text, plain, pos);
        out_.append(escaped, text.origin_at(pos));
        plain = pos + c.length;
      }
      pos += c.length;
    }
    out_.append_range(text, plain, s.size());
    out_.append("\"");
  }

  void break_line(int level, Origin origin) {
    if (!format_.indent) return;
    out_.append("\n", origin);
    for (int i = 0; i < level; ++i) out_.append(*format_.indent, origin);
  }

  void separate(const Text& separator, Origin origin) {
    origin == Origin::kTemplate ? out_.append(separator) : out_.append(separator.view(), origin);
  }

  void write_list(const List& list, int level) {
    if (list.items.empty()) return out_.append("[]", list.origin);
    out_.append("[", list.origin);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) separate(format_.item_separator, list.origin);
      break_line(level + 1, list.origin);
      write(list.items[i], level + 1);
    }
    break_line(level, list.origin);
    out_.append("]", list.origin);
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.as_text());
    if (key.is_none() || key.is_number()) {
      return write_string(Text(number_or_constant(key)));
    }
    throw ValueError(
        fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.size() == 0) return out_.append("{}", dict.origin);
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (format_.sort_keys) {
      Budget budget;
      std::stable_sort(entries.begin(), entries.end(), [&](auto* a, auto* b) {
        return compare(a->first, b->first, "<", budget) < 0;
      });
    }
    out_.append("{", dict.origin);
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!first) separate(format_.item_separator, dict.origin);
      first = false;
      break_line(level + 1, dict.origin);
      write_key(entry->first);
      separate(format_.key_separator, dict.origin);
      write(entry->second, level + 1);
    }
    break_line(level, dict.origin);
    out_.append("}", dict.origin);
  }

  const JsonFormat& format_;
  Text& out_;
};

}  // namespace

Text to_json(const Value& value, const JsonFormat& format) {
  Text out;
  JsonWriter(format, out).write(value, 0);
  return out;
}

}  // namespace llm
