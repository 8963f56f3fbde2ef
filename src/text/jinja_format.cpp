// Python's two ways to format text: `format % arguments` and str.format().
#include <fmt/format.h>

#include <cmath>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

constexpr int64_t kMaxWidth = 10'000;

/// A conversion: flags, width, precision and type letter of either kind.
struct Spec {
  bool left = false;
  bool zero = false;
  bool alternate = false;
  bool center = false;
  bool right = false;
  bool grouped = false;
  bool after_sign = false;  // str.format(): fill between sign and digits
  char sign = '-';          // '-', '+' or ' '
  Text fill{" "};
  int64_t width = 0;
  int64_t precision = -1;
  char type = 's';
};

int64_t checked_size(int64_t n) {
  if (n > kMaxWidth)
    throw ValueError(fmt::format("a width of more than {} is too wide", kMaxWidth));
  return n;
}

std::string with_thousands(const std::string& digits) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string result = digits.substr(0, end);
  for (size_t i = end; i > 3; i -= 3) result.insert(i - 3, ",");
  return result + digits.substr(end);
}

std::string integer_digits(int64_t value, const Spec& spec) {
  const uint64_t magnitude =
      value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  switch (spec.type) {
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude);
    default:
      return std::to_string(magnitude);
  }
}

std::string float_digits(double value, const Spec& spec) {
  const double magnitude = std::abs(value);
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, precision);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      return fmt::format("{:.{}f}", magnitude, precision);
  }
}

/// Pads to the spec's width. Unlike center(), "^" puts an odd blank on the right.
Text pad_as(const Text& text, const Spec& spec, Align otherwise) {
  if (spec.center) {
    const auto size = static_cast<int64_t>(count_code_points(text.view()));
    const int64_t left = std::max<int64_t>(spec.width - size, 0) / 2;
    return pad(pad(text, size + left, Align::kRight, spec.fill), spec.width, Align::kLeft,
               spec.fill);
  }
  const Align align = spec.left ? Align::kLeft : spec.right ? Align::kRight : otherwise;
  return pad(text, spec.width, align, spec.fill);
}

/// Sign, digits and padding.
Text finish_number(bool negative, std::string digits, const Spec& spec) {
  if (spec.grouped) digits = with_thousands(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const auto size = static_cast<int64_t>(sign.size() + digits.size());
  if (spec.zero && !spec.left && size < spec.width) {
    digits.insert(0, static_cast<size_t>(spec.width - size), '0');
  }
  if (spec.after_sign && size < spec.width) {
    Text padded(sign);
    padded.append(repeat(spec.fill, spec.width - size));
    padded.append(digits);
    return padded;
  }
  return pad_as(Text(sign + digits), spec, Align::kRight);
}

Text format_number(const Value& value, const Spec& spec) {
  const bool is_float_type = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (is_float_type) {
    const double number = value.as_float();
    return finish_number(std::signbit(number), float_digits(number, spec), spec);
  }
  if (value.is_big_int()) {
    if (std::string_view("xXob").find(spec.type) != std::string_view::npos) {
      throw ValueError("an integer of the template leaves the range of 64 bits");
    }
    const std::string& digits = value.as_big_int();
    const bool negative = digits[0] == '-';
    return finish_number(negative, digits.substr(negative ? 1 : 0), spec);
  }
  if (value.is_float() && !(std::abs(value.as_float()) < 9.2e18)) {
    const double whole = value.as_float();
    if (!std::isfinite(whole)) throw ValueError("cannot convert float infinity or NaN to integer");
    return finish_number(whole < 0, fmt::format("{:.0f}", std::abs(whole)), spec);
  }
  const int64_t number = value.is_float() ? static_cast<int64_t>(value.as_float()) : value.as_int();
  return finish_number(number < 0, integer_digits(number, spec), spec);
}

Text format_text(const Text& text, const Spec& spec) {
  Text result = text;
  if (spec.precision >= 0) {
    result = slice(Value(text), Value::none(), Value(spec.precision), Value::none()).as_text();
  }
  return pad_as(result, spec, Align::kLeft);
}

/// Reads digits at `pos`; -1 when there are none.
int64_t read_number(std::string_view text, size_t& pos) {
  int64_t number = -1;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    number = checked_size(std::max<int64_t>(number, 0) * 10 + (text[pos++] - '0'));
  }
  return number;
}

/// What Python takes for a mapping there, so that it may have more than the format uses.
bool is_mapping_like(const Value& value) {
  return value.is_dict() || value.is_undefined() ||
         (value.is_list() &&
          (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kRange));
}

class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& arguments)
      : format_(format), text_(format.view()), arguments_(arguments) {
    const bool is_tuple = arguments.is_list() && arguments.as_list().kind == ListKind::kTuple;
    positional_ = is_tuple ? arguments.as_list().items : std::vector<Value>{arguments};
  }

  Text run() {
    Text result;
    size_t pos = 0;
    while (true) {
      const size_t percent = text_.find('%', pos);
      result.append_range(format_, pos, std::min(percent, text_.size()));
      if (percent == std::string_view::npos) break;
      pos = percent + 1;
      result.append(convert(pos));
    }
    if (next_ < positional_.size() && !is_mapping_like(arguments_) && !used_names_) {
      throw ValueError("not all arguments converted during string formatting");
    }
    return result;
  }

 private:
  /// The conversion whose text after the % is at `pos`, which moves behind it.
  Text convert(size_t& pos) {
    Value named;
    const bool has_name = pos < text_.size() && text_[pos] == '(';
    if (has_name) named = named_argument(pos);
    Spec spec = read_spec(pos);
    if (spec.type == '%') return Text("%");
    const Value value = has_name ? named : next_argument();
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      spec.right = !spec.left;
      return format_text(spec.type == 's' ? to_text(value) : to_repr(value), spec);
    }
    if (spec.type == 'c' && value.is_string()) return format_text(value.as_text(), spec);
    if (value.is_float() && std::string_view("xXoc").find(spec.type) != std::string_view::npos) {
      throw ValueError(fmt::format("%{} format: an integer is required, not float", spec.type));
    }
    if (!value.is_number()) {
      throw ValueError(
          fmt::format("%{} format: a number is required, not {}", spec.type, value.type_name()));
    }
    return format_number(value, spec);
  }

  Spec read_spec(size_t& pos) {
    Spec spec;
    for (; pos < text_.size(); ++pos) {
      const char c = text_[pos];
      if (c == '-') {
        spec.left = true;
      } else if (c == '0') {
        spec.zero = true;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = read_size(pos, spec.left);
    if (pos < text_.size() && text_[pos] == '.') {
      ++pos;
      bool ignored = false;
      spec.precision = std::max<int64_t>(read_size(pos, ignored), 0);
    }
    if (pos >= text_.size()) throw ValueError("incomplete format");
    spec.type = text_[pos++];
    if (std::string_view("sradiuxXoeEfFgGc%").find(spec.type) == std::string_view::npos) {
      throw ValueError(fmt::format("unsupported format character '{}'", spec.type));
    }
    return spec;
  }

  /// A width or precision: digits, or * for the next argument.
  int64_t read_size(size_t& pos, bool& left) {
    if (pos >= text_.size() || text_[pos] != '*')
      return std::max<int64_t>(read_number(text_, pos), 0);
    ++pos;
    const Value size = next_argument();
    if (!size.is_integer()) throw ValueError("* wants int");
    left = left || size.as_int() < 0;
    return checked_size(std::abs(size.as_int()));
  }

  Value named_argument(size_t& pos) {
    const size_t end = text_.find(')', pos);
    if (end == std::string_view::npos) throw ValueError("incomplete format key");
    if (!arguments_.is_dict()) throw ValueError("format requires a mapping");
    const std::string name(text_.substr(pos + 1, end - pos - 1));
    pos = end + 1;
    used_names_ = true;
    const Value* value = arguments_.find(name);
    if (value == nullptr) throw ValueError(fmt::format("the format's key '{}' is missing", name));
    return *value;
  }

  Value next_argument() {
    if (next_ >= positional_.size()) throw ValueError("not enough arguments for format string");
    return positional_[next_++];
  }

  const Text& format_;
  std::string_view text_;
  const Value& arguments_;
  std::vector<Value> positional_;
  size_t next_ = 0;
  bool used_names_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Text& format, const Args& args)
      : interpreter_(interpreter), format_(format), text_(format.view()), args_(args) {}

  Text run() {
    Text result;
    for (size_t pos = 0; pos < text_.size();) {
      const size_t brace = std::min(text_.find_first_of("{}", pos), text_.size());
      result.append_range(format_, pos, brace);
      if (brace == text_.size()) break;
      const bool is_doubled = brace + 1 < text_.size() && text_[brace + 1] == text_[brace];
      if (is_doubled) {
        result.append_range(format_, brace, brace + 1);
        pos = brace + 2;
        continue;
      }
      if (text_[brace] == '}') throw ValueError("Single '}' encountered in format string");
      const size_t end = text_.find('}', brace);
      if (end == std::string_view::npos) throw ValueError("expected '}' before end of string");
      result.append(field(text_.substr(brace + 1, end - brace - 1)));
      pos = end + 1;
    }
    return result;
  }

 private:
  /// name!conversion:spec
  Text field(std::string_view field) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    char conversion = ' ';
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    const Value value = lookup(name);
    const Spec spec =
        colon < field.size() ? read_spec(field.substr(colon + 1)) : Spec{.type = '\0'};
    const bool has_spec = colon + 1 < field.size();
    if (conversion == 'r') return format_string(to_repr(value), spec);
    if (conversion == 's' || value.is_string() || !has_spec) {
      return format_string(to_text(value), spec);
    }
    if (!value.is_number()) {
      throw ValueError(
          fmt::format("unsupported format string passed to {}.__format__", value.type_name()));
    }
    check_number_spec(value, spec);
    Spec number = spec;
    if (number.type == '\0' && value.is_float()) {
      if (spec.precision < 0)
        return finish_number(std::signbit(value.as_float()), float_repr(std::abs(value.as_float())),
                             spec);
      number.type = 'g';
    }
    return format_number(value, number);
  }

  static Text format_string(const Text& text, const Spec& spec) {
    if ((spec.type != '\0' && spec.type != 's') || spec.grouped || spec.alternate ||
        spec.sign != '-' || spec.after_sign) {
      throw ValueError("a format that a str doesn't take");
    }
    return format_text(text, spec);
  }

  static void check_number_spec(const Value& value, const Spec& spec) {
    constexpr std::string_view kFloatTypes("\0eEfFgGn%", 9);
    constexpr std::string_view kIntegerTypes("bcdoxX");
    const bool as_float = kFloatTypes.find(spec.type) != std::string_view::npos;
    const bool as_integer =
        spec.type == '\0' || kIntegerTypes.find(spec.type) != std::string_view::npos;
    if (value.is_float() ? !as_float : !as_float && !as_integer) {
      throw ValueError(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type,
                                   value.type_name()));
    }
    if (!value.is_float() && as_integer && spec.precision >= 0) {
      throw ValueError("Precision not allowed in integer format specifier");
    }
  }

  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string first(name.substr(0, end));
    Value value = argument(first);
    for (size_t pos = end; pos < name.size();) {
      const bool is_index = name[pos] == '[';
      const size_t stop =
          std::min(is_index ? name.find(']', pos) : name.find_first_of(".[", pos + 1), name.size());
      const std::string part(name.substr(pos + 1, stop - pos - 1));
      size_t digits = 0;
      const int64_t index = read_number(part, digits);
      const bool is_number = is_index && index >= 0 && digits == part.size();
      value = is_number  ? interpreter_.get_item(value, Value(index))
              : is_index ? interpreter_.get_item(value, Value(part))
                         : interpreter_.get_attribute(value, part);
      pos = stop + (is_index ? 1 : 0);
    }
    return value;
  }

  Value argument(const std::string& name) {
    size_t digits = 0;
    int64_t index = read_number(name, digits);
    if (name.empty()) index = static_cast<int64_t>(next_++);
    if (index >= 0 && digits == name.size()) {
      if (static_cast<size_t>(index) >= args_.positional.size()) {
        throw ValueError("Replacement index out of range for positional args tuple");
      }
      return args_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    throw ValueError(fmt::format("the format's field '{}' is missing", name));
  }

  static Spec read_spec(std::string_view text) {
    Spec spec;
    spec.type = '\0';
    size_t pos = 0;
    const auto align_at = [&](size_t at) {
      return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos;
    };
    const size_t fill_length = text.empty() ? 0 : code_point_at(text, 0).length;
    const bool filled = align_at(fill_length);
    if (filled) {
      spec.fill = Text(std::string(text.substr(0, fill_length)));
      pos = fill_length;
    }
    bool aligned = false;
    if (align_at(pos)) {
      spec.left = text[pos] == '<';
      spec.right = text[pos] == '>';
      spec.center = text[pos] == '^';
      spec.after_sign = text[pos] == '=';
      aligned = true;
      ++pos;
    }
    const auto take = [&](char c) {
      const bool is_there = pos < text.size() && text[pos] == c;
      pos += is_there ? 1 : 0;
      return is_there;
    };
    if (take('+')) spec.sign = '+';
    if (take(' ')) spec.sign = ' ';
    take('-');
    spec.alternate = take('#');
    spec.zero = take('0');
    if (spec.zero && !filled) spec.fill = Text("0");
    spec.zero &= !aligned;
    spec.width = std::max<int64_t>(read_number(text, pos), 0);
    spec.grouped = take(',');
    if (take('.')) spec.precision = read_number(text, pos);
    if (pos < text.size()) spec.type = text[pos++];
    if (pos != text.size()) throw ValueError("Invalid format specifier");
    return spec;
  }

  Interpreter& interpreter_;
  const Text& format_;
  std::string_view text_;
  const Args& args_;
  size_t next_ = 0;
};

}  // namespace

Text percent_format(const Text& format, const Value& arguments) {
  return PercentFormatter(format, arguments).run();
}

Text brace_format(Interpreter& interpreter, const Text& format, const Args& args) {
  return BraceFormatter(interpreter, format, args).run();
}

}  // namespace llm::jinja
