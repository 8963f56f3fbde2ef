// Jinja's filters on text.
#include <fmt/format.h>

#include <unordered_map>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

using I = Interpreter&;
using V = const Value&;
using A = const Args&;

template <Case kCase>
Value case_filter(I, V value, A args) {
  BoundArgs("upper, lower or capitalize", args, {});
  return Value(change_case(to_text(value), kCase));
}

/// A word begins after blanks, '-' and opening brackets; the rest of it becomes small.
Value title(I, V value, A args) {
  BoundArgs("title", args, {});
  const Text text = to_text(value);
  Text result;
  bool at_start = true;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text.view(), pos);
    result.append(
        change_case(text.slice(pos, pos + c.length), at_start ? Case::kUpper : Case::kLower));
    const bool is_ascii = c.value < 0x80;
    at_start = is_python_space(c.value) ||
               (is_ascii && std::string_view("-({[<").find(static_cast<char>(c.value)) !=
                                std::string_view::npos);
    pos += c.length;
  }
  return Value(std::move(result));
}

Value trim(I, V value, A args) {
  const BoundArgs bound("trim", args, {"chars"});
  if (bound.get(0) == nullptr || bound.get(0)->is_none()) {
    return Value(strip(to_text(value), nullptr, true, true));
  }
  const Text characters = bound.text(0, "");
  return Value(strip(to_text(value), &characters, true, true));
}

Value replace_filter(I, V value, A args) {
  const BoundArgs bound("replace", args, {"old", "new", "count"});
  return Value(replace(to_text(value), to_text(bound.need(0)), to_text(bound.need(1)),
                       bound.integer(2, -1)));
}

Value indent(I, V value, A args) {
  const BoundArgs bound("indent", args, {"width", "first", "blank"});
  const bool blank = bound.flag(2, false);
  const Value* width = bound.get(0);
  const Text indentation = width != nullptr && width->is_string()
                               ? width->as_text()
                               : repeat(Text(" "), bound.integer(0, 4));
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  if (!value.is_string()) {
    throw ValueError(fmt::format("indent() needs a str, not {}", value.type_name()));
  }
  Text text = value.as_text();
  text.append("\n");
  const std::vector<Value> lines = split_lines(text, false);
  Text result;
  if (bound.flag(1, false)) result.append(indentation);
  for (size_t i = 0; i < lines.size(); ++i) {
    const Text& line = lines[i].as_text();
    if (i > 0) {
      result.append("\n");
      if (blank || !line.empty()) result.append(indentation);
    }
    result.append(line);
  }
  return Value(std::move(result));
}

Value truncate(I, V value, A args) {
  const BoundArgs bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Text end = bound.text(2, "...");
  const int64_t length = bound.integer(0, 255);
  const auto end_length = static_cast<int64_t>(count_code_points(end.view()));
  if (length < end_length) throw ValueError("truncate(): 'length' is shorter than 'end'");
  if (length_of(value) <= length + bound.integer(3, 5)) return value;
  if (!value.is_string()) {
    throw ValueError(fmt::format("truncate() needs a str, not {}", value.type_name()));
  }
  const Text& text = value.as_text();
  Text head =
      slice(Value(text), Value::none(), Value(length - end_length), Value::none()).as_text();
  if (!bound.flag(1, false)) {
    const size_t blank = head.str().rfind(' ');
    if (blank != std::string::npos) head = head.slice(0, blank);
  }
  head.append(end);
  return Value(std::move(head));
}

Value wordcount(I, V value, A args) {
  BoundArgs("wordcount", args, {});
  const Text text = to_text(value);
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text.view(), pos);
    const bool is_word = is_alphanumeric(c.value) || c.value == '_';
    if (is_word && !inside) ++words;
    inside = is_word;
    pos += c.length;
  }
  return Value(words);
}

Value center(I, V value, A args) {
  const BoundArgs bound("center", args, {"width"});
  return Value(pad(to_text(value), bound.integer(0, 80), Align::kCenter, Text(" ")));
}

Value format(I, V value, A args) {
  if (!args.named.empty() && !args.positional.empty()) {
    throw ValueError("can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) {
    return Value(percent_format(to_text(value), Value::list(args.positional, ListKind::kTuple)));
  }
  Dict names;
  for (const auto& [name, item] : args.named) names.set(Value(name), item);
  return Value(percent_format(to_text(value), Value(std::move(names))));
}

Value escape(I, V value, A args) {
  BoundArgs("escape", args, {});
  const Text text = to_text(value);
  Text result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.view()[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : "";
    if (entity.empty()) {
      result.append_range(text, i, i + 1);
    } else {
      result.append(entity, text.origin_at(i));
    }
  }
  return Value(std::move(result));
}

Value urlencode(I, V value, A args) {
  BoundArgs("urlencode", args, {});
  const Text text = to_text(value);
  constexpr std::string_view kKept = "_.-~/";
  Text result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.view()[i];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    if (is_letter || is_digit || kKept.find(c) != std::string_view::npos) {
      result.append_range(text, i, i + 1);
    } else {
      result.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)), text.origin_at(i));
    }
  }
  return Value(std::move(result));
}

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"capitalize", case_filter<Case::kCapitalize>},
      {"center", center},
      {"e", escape},
      {"escape", escape},
      {"forceescape", escape},
      {"format", format},
      {"indent", indent},
      {"lower", case_filter<Case::kLower>},
      {"replace", replace_filter},
      {"title", title},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", case_filter<Case::kUpper>},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
  };
  return kFilters;
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  const auto it = filters().find(name);
  return it == filters().end() ? nullptr : it->second;
}

}  // namespace llm::jinja
