// Methods of Python's str.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

using I = Interpreter&;
using S = const Value&;
using A = const Args&;

template <Case kCase>
Value case_method(I, S self, A args) {
  BoundArgs("upper or lower", args, {});
  return Value(change_case(self.as_text(), kCase));
}

Value casefold(I, S self, A args) {
  BoundArgs("casefold", args, {});
  const Text lower = change_case(self.as_text(), Case::kLower);
  return Value(replace(lower, Text("ß"), Text("ss"), -1));
}

template <bool kLeft, bool kRight>
Value strip_method(I, S self, A args) {
  const BoundArgs bound("strip", args, {"chars"});
  const Value* characters = bound.get(0);
  if (characters == nullptr || characters->is_none()) {
    return Value(strip(self.as_text(), nullptr, kLeft, kRight));
  }
  const Text set = bound.text(0, "");
  return Value(strip(self.as_text(), &set, kLeft, kRight));
}

template <bool kFromRight>
Value split_method(I interpreter, S self, A args) {
  const BoundArgs bound("split", args, {"sep", "maxsplit"});
  const bool has_separator = bound.get(0) != nullptr && !bound.get(0)->is_none();
  const Text separator = has_separator ? bound.text(0, "") : Text();
  const Text* at = has_separator ? &separator : nullptr;
  const int64_t max_splits = bound.integer(1, -1);
  interpreter.budget().charge(static_cast<int64_t>(self.as_text().size() / 64));
  return Value::list(kFromRight ? split_from_right(self.as_text(), at, max_splits)
                                : split(self.as_text(), at, max_splits));
}

template <bool kFromRight>
Value partition_method(I, S self, A args) {
  const BoundArgs bound("partition", args, {"sep"});
  const Text separator = bound.text(0, "");
  if (separator.empty()) throw ValueError("empty separator");
  const Text& text = self.as_text();
  const size_t found =
      kFromRight ? text.str().rfind(separator.str()) : text.str().find(separator.str());
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = {self, Value(""), Value("")};
    if (kFromRight) std::reverse(parts.begin(), parts.end());
  } else {
    const size_t end = found + separator.size();
    parts = {Value(text.slice(0, found)), Value(text.slice(found, end)),
             Value(text.slice(end, text.size()))};
  }
  return Value::list(std::move(parts), ListKind::kTuple);
}

Value splitlines(I, S self, A args) {
  const BoundArgs bound("splitlines", args, {"keepends"});
  return Value::list(split_lines(self.as_text(), bound.flag(0, false)));
}

Value replace_method(I, S self, A args) {
  const BoundArgs bound("replace", args, {"old", "new", "count"});
  bound.need(1);
  return Value(replace(self.as_text(), bound.text(0, ""), bound.text(1, ""), bound.integer(2, -1)));
}

/// The part of the text that (start, end) of startswith(), find() and count() leave, in bytes.
struct Window {
  std::string_view text;
  int64_t first = 0;   // index of its first character
  bool exists = true;  // start is not beyond the end
};

Window window_of(const Value& self, const BoundArgs& bound, size_t start_at) {
  const std::string_view text = self.as_text().view();
  const auto count = static_cast<int64_t>(count_code_points(text));
  const auto clamp = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + count : i, 0, std::max(count, i));
  };
  const int64_t start = clamp(bound.integer(start_at, 0));
  const int64_t end = std::min(count, clamp(bound.integer(start_at + 1, count)));
  if (start > end) return {"", start, false};
  const auto byte_of = [&](int64_t index) {
    size_t pos = 0;
    for (int64_t i = 0; i < index; ++i) pos += code_point_at(text, pos).length;
    return pos;
  };
  const size_t begin = byte_of(start);
  return {text.substr(begin, byte_of(end) - begin), start, true};
}

template <bool kStart>
Value affix_method(I, S self, A args) {
  const BoundArgs bound(kStart ? "startswith" : "endswith", args, {"affix", "start", "end"});
  const Window window = window_of(self, bound, 1);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      throw ValueError(fmt::format("startswith and endswith need str or a tuple of str, not {}",
                                   affix.type_name()));
    }
    const std::string& text = affix.as_string();
    return window.exists && (kStart ? window.text.starts_with(text) : window.text.ends_with(text));
  };
  const Value& affix = bound.need(0);
  if (affix.is_undefined()) throw ValueError(affix.undefined_hint());
  if (!affix.is_list() || affix.as_list().kind != ListKind::kTuple) return Value(matches(affix));
  const auto& options = affix.as_list().items;
  return Value(std::any_of(options.begin(), options.end(), matches));
}

/// Index of the match in characters, -1 if there is none.
int64_t find_index(const Value& self, const Args& args, bool from_right) {
  const BoundArgs bound("find", args, {"sub", "start", "end"});
  bound.need(0);
  const Window window = window_of(self, bound, 1);
  const std::string needle = bound.text(0, "").str();
  const size_t found = from_right ? window.text.rfind(needle) : window.text.find(needle);
  if (!window.exists || found == std::string_view::npos) return -1;
  return window.first + static_cast<int64_t>(count_code_points(window.text.substr(0, found)));
}

template <bool kFromRight, bool kMustExist>
Value find_method_of(I, S self, A args) {
  const int64_t index = find_index(self, args, kFromRight);
  if (kMustExist && index < 0) throw ValueError("substring not found");
  return Value(index);
}

Value count_method(I, S self, A args) {
  const BoundArgs bound("count", args, {"sub", "start", "end"});
  bound.need(0);
  const Window window = window_of(self, bound, 1);
  const std::string needle = bound.text(0, "").str();
  if (!window.exists) return Value(0);
  if (needle.empty()) return Value(static_cast<int64_t>(count_code_points(window.text)) + 1);
  int64_t count = 0;
  for (size_t pos = 0; (pos = window.text.find(needle, pos)) != std::string_view::npos;) {
    ++count;
    pos += needle.size();
  }
  return Value(count);
}

Value join_method(I, S self, A args) {
  const BoundArgs bound("join", args, {"iterable"});
  const std::vector<Value> items = iterate(bound.need(0));
  for (const Value& item : items) {
    if (item.is_undefined()) throw ValueError(item.undefined_hint());
    if (!item.is_string()) {
      throw ValueError(
          fmt::format("sequence item: expected str instance, {} found", item.type_name()));
    }
  }
  return Value(join(items, self.as_text()));
}

template <Align kAlign>
Value pad_method(I, S self, A args) {
  const BoundArgs bound("center, ljust or rjust", args, {"width", "fillchar"});
  bound.need(0);
  return Value(pad(self.as_text(), bound.integer(0, 0), kAlign, bound.text(1, " ")));
}

Value zfill(I, S self, A args) {
  const BoundArgs bound("zfill", args, {"width"});
  const Text& text = self.as_text();
  const bool has_sign = text.view().starts_with('-') || text.view().starts_with('+');
  Text result = text.slice(0, has_sign ? 1 : 0);
  result.append(pad(text.slice(has_sign ? 1 : 0, text.size()),
                    bound.integer(0, 0) - (has_sign ? 1 : 0), Align::kRight, Text("0")));
  return Value(std::move(result));
}

template <bool kPrefix>
Value remove_affix(I, S self, A args) {
  const BoundArgs bound("removeprefix or removesuffix", args, {"affix"});
  const Text& text = self.as_text();
  const std::string affix = bound.text(0, "").str();
  if (kPrefix && text.view().starts_with(affix))
    return Value(text.slice(affix.size(), text.size()));
  if (!kPrefix && text.view().ends_with(affix)) {
    return Value(text.slice(0, text.size() - affix.size()));
  }
  return self;
}

/// True when there are characters and each one satisfies `holds`.
template <typename Predicate>
Value all_characters(const Value& self, const Predicate& holds) {
  const std::string_view text = self.as_text().view();
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text, pos);
    if (!holds(c.value)) return Value(false);
    pos += c.length;
  }
  return Value(!text.empty());
}

bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }

/// Capitals only where a word begins, small letters only inside, and at least one of them.
Value istitle(I, S self, A) {
  const std::string_view text = self.as_text().view();
  bool any = false;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text, pos);
    pos += c.length;
    const bool cased = is_cased(c.value);
    const bool capital = cased && to_lower(c.value) != c.value;
    if (cased && capital == inside) return Value(false);
    any |= cased;
    inside = cased;
  }
  return Value(any);
}

Value isascii(I, S self, A) {
  const std::string& text = self.as_string();
  return Value(std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }));
}

Value format_method(Interpreter& interpreter, const Value& self, const Args& args) {
  return Value(brace_format(interpreter, self.as_text(), args));
}

const std::unordered_map<std::string_view, Method>& methods() {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"capitalize", case_method<Case::kCapitalize>},
      {"casefold", casefold},
      {"center", pad_method<Align::kCenter>},
      {"count", count_method},
      {"endswith", affix_method<false>},
      {"find", find_method_of<false, false>},
      {"format", format_method},
      {"index", find_method_of<false, true>},
      {"isalnum", [](I, S s, A) { return all_characters(s, is_alphanumeric); }},
      {"isalpha", [](I, S s, A) { return all_characters(s, is_alphabetic); }},
      {"isascii", isascii},
      {"isdecimal", [](I, S s, A) { return all_characters(s, is_ascii_digit); }},
      {"isdigit", [](I, S s, A) { return all_characters(s, is_ascii_digit); }},
      {"isnumeric", [](I, S s, A) { return all_characters(s, is_ascii_digit); }},
      {"islower", [](I i, S s, A args) { return Value(find_test("lower")(i, s, args)); }},
      {"isspace", [](I, S s, A) { return all_characters(s, is_python_space); }},
      {"istitle", istitle},
      {"isupper", [](I i, S s, A args) { return Value(find_test("upper")(i, s, args)); }},
      {"join", join_method},
      {"ljust", pad_method<Align::kLeft>},
      {"lower", case_method<Case::kLower>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition_method<false>},
      {"removeprefix", remove_affix<true>},
      {"removesuffix", remove_affix<false>},
      {"replace", replace_method},
      {"rfind", find_method_of<true, false>},
      {"rindex", find_method_of<true, true>},
      {"rjust", pad_method<Align::kRight>},
      {"rpartition", partition_method<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split_method<false>},
      {"splitlines", splitlines},
      {"startswith", affix_method<true>},
      {"strip", strip_method<true, true>},
      {"swapcase", case_method<Case::kSwap>},
      {"title", case_method<Case::kTitle>},
      {"upper", case_method<Case::kUpper>},
      {"zfill", zfill},
  };
  return kMethods;
}

}  // namespace

Method find_string_method(std::string_view name) {
  const auto it = methods().find(name);
  return it == methods().end() ? nullptr : it->second;
}

}  // namespace llm::jinja
