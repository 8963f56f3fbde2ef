// Jinja's filters on lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

using I = Interpreter&;
using V = const Value&;
using A = const Args&;

Value generator(std::vector<Value> items) {
  return Value::list(std::move(items), ListKind::kGenerator);
}

/// "a.b.0" of map(attribute=...) and friends: attributes one after the other, digits as indices.
Value follow(I interpreter, const Value& item, const Value& path) {
  if (path.is_integer()) return interpreter.get_item(item, path);
  if (!path.is_string()) throw ValueError("an attribute must be a string or an integer");
  Value current = item;
  const std::vector<Value> parts = [&] {
    const Text dot(".");
    return split(path.as_text(), &dot, -1);
  }();
  for (const Value& part : parts) {
    const std::string& name = part.as_string();
    int64_t index = 0;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index =
        !name.empty() && result.ptr == name.data() + name.size() && name[0] != '-';
    current = interpreter.get_item(current, is_index ? Value(index) : part);
  }
  return current;
}

/// What sort, min, max and unique compare: an attribute perhaps, in small letters perhaps.
Value sort_key(I interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
  const bool has_attribute = attribute != nullptr && !attribute->is_none();
  Value key = has_attribute ? follow(interpreter, item, *attribute) : item;
  if (key.is_string() && !case_sensitive) return Value(change_case(key.as_text(), Case::kLower));
  return key;
}

/// Sorts by keys, stable; reverse keeps the order of equal ones, as Python does.
void sort_pairs(I interpreter, std::vector<std::pair<Value, Value>>& pairs, bool reverse) {
  if (reverse) std::reverse(pairs.begin(), pairs.end());
  std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
    return compare(a.first, b.first, "<", interpreter.budget()) < 0;
  });
  if (reverse) std::reverse(pairs.begin(), pairs.end());
}

Value list(I, V value, A args) {
  BoundArgs("list", args, {});
  return Value::list(iterate(value));
}

Value first(I, V value, A args) {
  BoundArgs("first", args, {});
  const std::vector<Value> items = iterate(value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(I, V value, A args) {
  BoundArgs("last", args, {});
  if (value.is_list() && value.as_list().kind == ListKind::kGenerator) {
    throw ValueError("'generator' object is not reversible");
  }
  const std::vector<Value> items = iterate(value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value join_filter(I interpreter, V value, A args) {
  const BoundArgs bound("join", args, {"d", "attribute"});
  std::vector<Value> items = iterate(value);
  if (bound.get(1) != nullptr && !bound.get(1)->is_none()) {
    for (Value& item : items) item = follow(interpreter, item, *bound.get(1));
  }
  return Value(join(items, bound.get(0) != nullptr ? to_text(*bound.get(0)) : Text()));
}

Value reverse(I, V value, A args) {
  BoundArgs("reverse", args, {});
  if (value.is_string()) {
    return slice(value, Value::none(), Value::none(), Value(-1));
  }
  std::vector<Value> items = iterate(value);
  std::reverse(items.begin(), items.end());
  return generator(std::move(items));
}

Value items(I, V value, A args) {
  BoundArgs("items", args, {});
  if (value.is_undefined()) return generator({});
  if (!value.is_dict()) throw ValueError("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.as_dict().entries()) {
    pairs.push_back(Value::list({key, item}, ListKind::kTuple));
  }
  return generator(std::move(pairs));
}

Value dictsort(I interpreter, V value, A args) {
  const BoundArgs bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.text(1, "key").str();
  if (by != "key" && by != "value")
    throw ValueError("You can only sort by either 'key' or 'value'");
  if (!value.is_dict()) throw ValueError("dictsort needs a mapping");
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [key, item] : value.as_dict().entries()) {
    pairs.emplace_back(
        sort_key(interpreter, by == "key" ? key : item, nullptr, bound.flag(0, false)),
        Value::list({key, item}, ListKind::kTuple));
  }
  sort_pairs(interpreter, pairs, bound.flag(2, false));
  std::vector<Value> sorted;
  for (auto& [key, pair] : pairs) sorted.push_back(std::move(pair));
  return Value::list(std::move(sorted));
}

/// sort() compares lists of keys, so that equal ones need no order: "a,b" names two attributes.
Value sort_keys(I interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
  const bool several = attribute != nullptr && attribute->is_string();
  if (!several) return Value::list({sort_key(interpreter, item, attribute, case_sensitive)});
  const Text comma(",");
  std::vector<Value> keys;
  for (const Value& part : split(attribute->as_text(), &comma, -1)) {
    keys.push_back(sort_key(interpreter, item, &part, case_sensitive));
  }
  return Value::list(std::move(keys));
}

Value sort(I interpreter, V value, A args) {
  const BoundArgs bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> pairs;
  for (Value& item : iterate(value)) {
    Value key = sort_keys(interpreter, item, bound.get(2), bound.flag(1, false));
    pairs.emplace_back(std::move(key), std::move(item));
  }
  sort_pairs(interpreter, pairs, bound.flag(0, false));
  std::vector<Value> sorted;
  for (auto& [key, item] : pairs) sorted.push_back(std::move(item));
  return Value::list(std::move(sorted));
}

Value unique(I interpreter, V value, A args) {
  const BoundArgs bound("unique", args, {"case_sensitive", "attribute"});
  std::vector<Value> kept;
  Dict seen;
  for (Value& item : iterate(value)) {
    const Value key = sort_key(interpreter, item, bound.get(1), bound.flag(0, false));
    if (seen.find_value(key) != nullptr) continue;
    seen.set(key, Value(true));
    kept.push_back(std::move(item));
  }
  return generator(std::move(kept));
}

template <bool kMax>
Value extreme(I interpreter, V value, A args) {
  const BoundArgs bound("min or max", args, {"case_sensitive", "attribute"});
  const std::vector<Value> candidates = iterate(value);
  if (candidates.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    return sort_key(interpreter, item, bound.get(1), bound.flag(0, false));
  };
  Value best = candidates[0];
  for (size_t i = 1; i < candidates.size(); ++i) {
    const int order =
        compare(key_of(candidates[i]), key_of(best), kMax ? ">" : "<", interpreter.budget());
    if (kMax ? order > 0 : order < 0) best = candidates[i];
  }
  return best;
}

Value sum(I interpreter, V value, A args) {
  const BoundArgs bound("sum", args, {"attribute", "start"});
  Value total = bound.get(1) != nullptr ? *bound.get(1) : Value(0);
  for (const Value& item : iterate(value)) {
    const bool has_attribute = bound.get(0) != nullptr && !bound.get(0)->is_none();
    total = binary_operation("+", total,
                             has_attribute ? follow(interpreter, item, *bound.get(0)) : item);
  }
  return total;
}

/// A filter or test with its arguments, taken from the arguments of map, select and the like.
struct Inner {
  std::string name;
  Args args;
};

Inner inner_call(const Args& args, size_t skipped, std::string_view what) {
  if (args.positional.size() <= skipped || !args.positional[skipped].is_string()) {
    throw ValueError(fmt::format("{} needs a name", what));
  }
  Inner inner{args.positional[skipped].as_string(), {}};
  inner.args.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skipped) + 1,
                               args.positional.end());
  inner.args.named = args.named;
  return inner;
}

/// map() and select() look whether there is anything before they iterate: 0 has no items.
std::vector<Value> items_if_any(const Value& value) {
  return value.truthy() ? iterate(value) : std::vector<Value>();
}

Value map_attribute(I interpreter, V value, A args) {
  const BoundArgs bound("map", args, {"attribute", "default"});
  std::vector<Value> mapped;
  for (const Value& item : items_if_any(value)) {
    Value result = follow(interpreter, item, bound.need(0));
    const Value* otherwise = bound.get(1);  // none counts as not given
    const bool use_default = result.is_undefined() && otherwise != nullptr && !otherwise->is_none();
    mapped.push_back(use_default ? *otherwise : std::move(result));
  }
  return generator(std::move(mapped));
}

Value map(I interpreter, V value, A args) {
  if (args.positional.empty() && !args.named.empty())
    return map_attribute(interpreter, value, args);
  const Inner filter = inner_call(args, 0, "map");
  std::vector<Value> mapped;
  for (const Value& item : items_if_any(value)) {
    mapped.push_back(interpreter.apply_filter(filter.name, item, filter.args));
  }
  return generator(std::move(mapped));
}

template <bool kKeep, bool kAttribute>
Value select(I interpreter, V value, A args) {
  constexpr size_t kSkipped = kAttribute ? 1 : 0;
  if (args.positional.size() < kSkipped) throw ValueError("selectattr needs an attribute");
  const bool has_test = args.positional.size() > kSkipped;
  const Inner test = has_test ? inner_call(args, kSkipped, "select") : Inner{};
  std::vector<Value> kept;
  for (Value& item : items_if_any(value)) {
    const Value subject = kAttribute ? follow(interpreter, item, args.positional[0]) : item;
    const bool holds =
        has_test ? interpreter.apply_test(test.name, subject, test.args) : subject.truthy();
    if (holds == kKeep) kept.push_back(std::move(item));
  }
  return generator(std::move(kept));
}

Value groupby(I interpreter, V value, A args) {
  const BoundArgs bound("groupby", args, {"attribute", "default", "case_sensitive"});
  std::vector<std::pair<Value, Value>> pairs;
  for (Value& item : iterate(value)) {
    Value key = follow(interpreter, item, bound.need(0));
    const Value* otherwise = bound.get(1);  // none counts as not given
    if (key.is_undefined() && otherwise != nullptr && !otherwise->is_none()) key = *otherwise;
    pairs.emplace_back(sort_key(interpreter, key, nullptr, bound.flag(2, false)), std::move(item));
  }
  sort_pairs(interpreter, pairs, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < pairs.size();) {
    std::vector<Value> members;
    const Value key = pairs[i].first;
    const Value shown = follow(interpreter, pairs[i].second, bound.need(0));
    while (i < pairs.size() && equals(pairs[i].first, key, interpreter.budget())) {
      members.push_back(std::move(pairs[i++].second));
    }
    groups.push_back(Value::list(
        {shown.is_undefined() ? key : shown, Value::list(std::move(members))}, ListKind::kTuple));
  }
  return Value::list(std::move(groups));
}

Value batch(I, V value, A args) {
  const BoundArgs bound("batch", args, {"linecount", "fill_with"});
  const int64_t size = bound.integer(0, 0);
  if (size < 1 || size > static_cast<int64_t>(kMaxListItems)) {
    throw ValueError("batch(): 'linecount' is out of range");
  }
  std::vector<Value> rows, row;
  for (Value& item : iterate(value)) {
    if (static_cast<int64_t>(row.size()) == size)
      rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const bool fills = bound.get(1) != nullptr && !bound.get(1)->is_none();
    if (fills) row.resize(static_cast<size_t>(size), *bound.get(1));
    rows.push_back(Value::list(std::move(row)));
  }
  return generator(std::move(rows));
}

Value slice_filter(I, V value, A args) {
  const BoundArgs bound("slice", args, {"slices", "fill_with"});
  const int64_t slices = bound.integer(0, 0);
  if (slices < 1 || slices > static_cast<int64_t>(kMaxListItems)) {
    throw ValueError("slice(): 'slices' is out of range");
  }
  const std::vector<Value> all = iterate(value);
  const auto count = static_cast<int64_t>(all.size());
  const bool fills = bound.get(1) != nullptr && !bound.get(1)->is_none();
  std::vector<Value> parts;
  auto from = all.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const bool is_longer = i < count % slices;
    const auto to = from + (count / slices + (is_longer ? 1 : 0));
    std::vector<Value> part(from, to);
    if (fills && !is_longer) part.push_back(*bound.get(1));
    parts.push_back(Value::list(std::move(part)));
    from = to;
  }
  return generator(std::move(parts));
}

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"batch", batch},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", groupby},
      {"items", items},
      {"join", join_filter},
      {"last", last},
      {"list", list},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", select<false, false>},
      {"rejectattr", select<false, true>},
      {"reverse", reverse},
      {"select", select<true, false>},
      {"selectattr", select<true, true>},
      {"slice", slice_filter},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  return kFilters;
}

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  const auto it = filters().find(name);
  return it == filters().end() ? nullptr : it->second;
}

}  // namespace llm::jinja
