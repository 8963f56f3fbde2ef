#include "text/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace llm {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (bytes_.size() > kMaxTextBytes) throw ValueError("a text of the template grows too large");
  if (origin != Origin::kTemplate && !bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

Origin Text::origin_at(size_t pos) const {
  if (runs_.empty()) return Origin::kTemplate;
  return std::upper_bound(runs_.begin(), runs_.end(), pos,
                          [](size_t p, const Run& run) { return p < run.end; })
      ->origin;
}

void Text::extend_run(size_t bytes, Origin origin) {
  if (bytes == 0) return;
  const size_t old_size = bytes_.size();
  if (runs_.empty()) {
    if (origin == Origin::kTemplate) return;
    if (old_size > 0) runs_.push_back({old_size, Origin::kTemplate});
  }
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end += bytes;
  } else {
    runs_.push_back({old_size + bytes, origin});
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.size() > kMaxTextBytes - bytes_.size()) {
    throw ValueError(
        fmt::format("a text of the template grows beyond {} MiB", kMaxTextBytes >> 20));
  }
  extend_run(bytes.size(), origin);
  bytes_.append(bytes);
}

void Text::append_range(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  if (other.runs_.empty()) return append(other.view().substr(begin, end - begin));
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t p, const Run& r) { return p < r.end; });
  while (begin < end) {
    const size_t stop = std::min(end, run->end);
    append(other.view().substr(begin, stop - begin), run->origin);
    begin = stop;
    ++run;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text result;
  result.append_range(*this, begin, end);
  return result;
}

namespace {

void check_depth(int depth) {
  if (depth > kMaxValueDepth) {
    throw ValueError(fmt::format("lists and objects are nested more than {} deep", kMaxValueDepth));
  }
}

/// Equal for values that are equal as dict keys, different otherwise.
std::string hash_text(const Value& key) {
  if (key.is_string()) return "s" + key.as_string();
  if (key.is_integer()) return "n" + std::to_string(key.as_int());
  if (key.is_float()) {
    const double d = key.as_float();
    if (d == std::floor(d) && std::abs(d) < 1e18) {
      return "n" + std::to_string(static_cast<int64_t>(d));
    }
    return "n" + float_repr(d);
  }
  if (key.is_big_int()) return "n" + key.as_big_int();
  if (key.is_none()) return "N";
  if (key.is_undefined()) return "U";
  if (key.is_list() && key.as_list().kind == ListKind::kTuple) {
    std::string hash = "(";
    for (const Value& item : key.as_list().items) {
      const std::string part = hash_text(item);
      hash += fmt::format("{}:{}", part.size(), part);
    }
    return hash;
  }
  throw ValueError(fmt::format("unhashable type: '{}'", key.type_name()));
}

}  // namespace

const Value* Dict::find_hash(const std::string& hash) const {
  const auto it = index_.find(hash);
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Dict::find_value(const Value& key) const { return find_hash(hash_text(key)); }

const Value* Dict::find(std::string_view key) const {
  constexpr size_t kFewKeys = 8;
  if (entries_.size() > kFewKeys) return find_hash("s" + std::string(key));
  for (const auto& [k, value] : entries_) {
    if (k.is_string() && k.as_string() == key) return &value;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  depth = std::max({depth, 1 + value.depth(), 1 + key.depth()});
  const auto [it, is_new] = index_.try_emplace(hash_text(key), entries_.size());
  if (is_new) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[it->second].second = std::move(value);
  }
}

void Dict::erase(std::string_view key) {
  const auto it = index_.find("s" + std::string(key));
  if (it == index_.end()) return;
  const size_t position = it->second;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  index_.erase(it);
  for (auto& [hash, other] : index_) other -= other > position ? 1 : 0;
}

Value::Value(List list) {
  if (list.items.size() > kMaxListItems) {
    throw ValueError(fmt::format("a list of the template has more than {} items", kMaxListItems));
  }
  list.depth = 1;
  for (const Value& item : list.items) list.depth = std::max(list.depth, 1 + item.depth());
  check_depth(list.depth);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  check_depth(dict.depth);
  data_ = std::make_shared<const Dict>(std::move(dict));
}

double Value::as_float() const {
  if (is_float()) return std::get<double>(data_);
  if (is_big_int()) return std::strtod(as_big_int().c_str(), nullptr);
  return static_cast<double>(as_int());
}

std::string Value::undefined_hint() const {
  const auto& hint = std::get<Undefined>(data_).hint;
  return hint ? *hint : "the value is undefined";
}

const Value* Value::find(std::string_view key) const {
  return is_dict() ? as_dict().find(key) : nullptr;
}

bool Value::truthy() const {
  if (is_bool() || is_int()) return as_int() != 0;
  if (is_float()) return as_float() != 0;
  if (is_string()) return !as_text().empty();
  if (is_list()) return as_list().kind == ListKind::kGenerator || !as_list().items.empty();
  if (is_dict()) return as_dict().size() != 0;
  return is_big_int() || is_object();
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int() || is_big_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_dict()) return "dict";
  if (is_object()) return as_object()->type_name();
  switch (as_list().kind) {
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kRange:
      return "range";
    case ListKind::kGenerator:
      return "generator";
    case ListKind::kKeys:
      return "dict_keys";
    case ListKind::kValues:
      return "dict_values";
    case ListKind::kItems:
      return "dict_items";
    case ListKind::kList:
      break;
  }
  return "list";
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_list()) return &as_list() == &other.as_list();
  if (is_dict()) return &as_dict() == &other.as_dict();
  if (is_object()) return as_object() == other.as_object();
  Budget budget;
  return equals(*this, other, budget);
}

int Value::depth() const {
  if (is_list()) return as_list().depth;
  if (is_dict()) return as_dict().depth;
  if (is_object()) return as_object()->depth();
  return 0;
}

namespace {

bool is_list_like(const List& list) { return list.kind != ListKind::kGenerator; }

bool same_sequence_type(const List& a, const List& b) {
  const bool sets = a.kind == ListKind::kKeys && b.kind == ListKind::kKeys;
  return a.kind == b.kind && is_list_like(a) && (sets || a.kind != ListKind::kValues);
}

bool equal_lists(const List& a, const List& b, Budget& budget) {
  if (&a == &b) return true;
  if (!same_sequence_type(a, b) || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equals(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find_value(key);
    if (other == nullptr || !equals(value, *other, budget)) return false;
  }
  return true;
}

int sign(bool less, bool greater) { return less ? -1 : greater ? 1 : 0; }

/// What looking at all of it costs: 64 bytes are a step.
int64_t cost_of(const Value& v) {
  const size_t bytes = v.is_big_int()  ? v.as_big_int().size()
                       : v.is_string() ? v.as_text().size()
                                       : 0;
  return static_cast<int64_t>(bytes / 64);
}

int compare_big_ints(const Value& a, const Value& b) {
  const auto digits = [](const Value& v) {
    return v.is_big_int() ? v.as_big_int() : std::to_string(v.as_int());
  };
  const std::string x = digits(a), y = digits(b);
  const bool x_negative = x[0] == '-', y_negative = y[0] == '-';
  if (x_negative != y_negative) return x_negative ? -1 : 1;
  const int larger = x.size() != y.size() ? sign(x.size() < y.size(), true) : x.compare(y);
  return x_negative ? -larger : larger;
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    return sign(a.as_int() < b.as_int(), a.as_int() > b.as_int());
  }
  if (!a.is_float() && !b.is_float()) return compare_big_ints(a, b);
  return sign(a.as_float() < b.as_float(), a.as_float() > b.as_float());
}

}  // namespace

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.charge(1 + cost_of(a) + cost_of(b));
  if (a.is_number() && b.is_number()) {
    if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return false;
    return compare_numbers(a, b) == 0;
  }
  if (a.is_string() && b.is_string()) return a.as_text() == b.as_text();
  if (a.is_list() && b.is_list()) return equal_lists(a.as_list(), b.as_list(), budget);
  if (a.is_dict() && b.is_dict()) return equal_dicts(a.as_dict(), b.as_dict(), budget);
  if (a.is_object() && b.is_object()) return a.as_object() == b.as_object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b, std::string_view op, Budget& budget) {
  budget.charge(1 + cost_of(a) + cost_of(b));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) return a.as_string().compare(b.as_string());
  const bool sequences =
      a.is_list() && b.is_list() && a.as_list().kind == b.as_list().kind &&
      (a.as_list().kind == ListKind::kList || a.as_list().kind == ListKind::kTuple);
  if (!sequences) {
    if (a.is_undefined()) throw ValueError(a.undefined_hint());
    if (b.is_undefined()) throw ValueError(b.undefined_hint());
    throw ValueError(fmt::format("'{}' not supported between instances of '{}' and '{}'", op,
                                 a.type_name(), b.type_name()));
  }
  const auto& x = a.as_list().items;
  const auto& y = b.as_list().items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!equals(x[i], y[i], budget)) return compare(x[i], y[i], op, budget);
  }
  return sign(x.size() < y.size(), x.size() > y.size());
}

Value with_origin(const Value& value, Origin origin) {
  if (value.is_string()) return Value(Text(value.as_string(), origin));
  if (value.is_list()) {
    List copy = value.as_list();
    copy.origin = origin;
    for (Value& item : copy.items) item = with_origin(item, origin);
    return Value(std::move(copy));
  }
  if (value.is_dict()) {
    Dict copy;
    copy.origin = origin;
    copy.print_as_json = value.as_dict().print_as_json;
    for (const auto& [key, item] : value.as_dict().entries()) {
      copy.set(with_origin(key, origin), with_origin(item, origin));
    }
    return Value(std::move(copy));
  }
  return value;
}

}  // namespace llm
