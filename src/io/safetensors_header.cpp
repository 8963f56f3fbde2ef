#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace {

using Json = nlohmann::json;

// More dimensions than any framework has; keeps a list of zeros from growing without end.
constexpr size_t kMaxDims = 64;

/// Follows the parser through `{name: {"dtype", "shape": [..], "data_offsets": [..]}, ...}`.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& origin) : origin_(origin) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t x) override {
    return scalar("the negative number " + std::to_string(x));
  }
  bool number_unsigned(number_unsigned_t x) override {
    if (place_ == Place::kShape) return add_dim(x);
    if (place_ == Place::kOffsets) return add_offset(x);
    return scalar("a number");
  }
  bool number_float(number_float_t, const string_t& text) override {
    return scalar("the number " + printable(text));
  }
  bool string(string_t& x) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.insert_or_assign(std::move(key_), std::move(x));
      return true;
    }
    if (place_ == Place::kEntry && key_ == "dtype") {
      entry_.dtype = known_dtype(x);
      return true;
    }
    return scalar("a string");
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    push();
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (key_ == "__metadata__") {
          place_ = Place::kMetadata;
        } else {
          place_ = Place::kEntry;
          entry_ = {};
          num_offsets_ = 0;
          has_dtype_ = has_shape_ = has_offsets_ = false;
        }
        return true;
      default:
        return start_other("an object");
    }
  }
  bool start_array(std::size_t) override {
    push();
    if (place_ == Place::kEntry && key_ == "shape") {
      place_ = Place::kShape;
      return true;
    }
    if (place_ == Place::kEntry && key_ == "data_offsets") {
      place_ = Place::kOffsets;
      return true;
    }
    return start_other("a list");
  }
  bool key(string_t& x) override {
    switch (place_) {
      case Place::kTop:
        if (x == "__metadata__") {
          if (has_metadata_) refuse("{}: the header has \"__metadata__\" twice", origin_);
          has_metadata_ = true;
        } else if (header_.entries.count(x) != 0) {
          refuse("{}: the header lists tensor \"{}\" twice", origin_, printable(x));
        } else {
          name_ = x;
        }
        break;
      case Place::kMetadata:
        if (header_.metadata.count(x) != 0) {
          refuse("{}: \"__metadata__\" has the key \"{}\" twice", origin_, printable(x));
        }
        break;
      case Place::kEntry:
        if (x == "dtype") mark(has_dtype_, x);
        if (x == "shape") mark(has_shape_, x);
        if (x == "data_offsets") mark(has_offsets_, x);
        break;
      default:
        break;
    }
    key_ = std::move(x);
    return true;
  }
  bool end_object() override {
    --depth_;
    switch (place_) {
      case Place::kEntry:
        finish_entry();
        place_ = Place::kTop;
        break;
      case Place::kMetadata:
        place_ = Place::kTop;
        break;
      case Place::kTop:
        place_ = Place::kOutside;
        break;
      default:
        end_ignored();
    }
    return true;
  }
  bool end_array() override {
    --depth_;
    if (place_ == Place::kShape || place_ == Place::kOffsets) {
      place_ = Place::kEntry;
    } else {
      end_ignored();
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    refuse("{}: the header is not valid JSON at its byte {} (near \"{}\")", origin_, position,
           printable(token));
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kEntry, kShape, kOffsets, kIgnored };

  void push() {
    if (++depth_ > kMaxJsonDepth) {
      refuse("{}: the header is nested deeper than {} levels", origin_, kMaxJsonDepth);
    }
  }

  // Any value is allowed under an unknown key of a tensor: the library ignores those.
  bool ignorable() const {
    return place_ == Place::kIgnored || (place_ == Place::kEntry && key_ != "dtype" &&
                                         key_ != "shape" && key_ != "data_offsets");
  }

  bool start_other(std::string_view what) {
    if (!ignorable()) wrong_type(what);
    if (place_ == Place::kEntry) {
      place_ = Place::kIgnored;
      ignored_from_ = depth_;
    }
    return true;
  }

  void end_ignored() {
    if (place_ == Place::kIgnored && depth_ == ignored_from_ - 1) place_ = Place::kEntry;
  }

  bool scalar(std::string_view what) {
    if (!ignorable()) wrong_type(what);
    return true;
  }

  [[noreturn]] void wrong_type(std::string_view what) const {
    const std::string name = printable(name_);
    switch (place_) {
      case Place::kOutside:
        refuse("{}: the header is {}, not a JSON object", origin_, what);
      case Place::kMetadata:
        refuse("{}: \"__metadata__\" may hold only strings, but \"{}\" is {}", origin_,
               printable(key_), what);
      case Place::kTop:
        refuse("{}: header entry \"{}\" is {}, not an object", origin_, printable(key_), what);
      case Place::kShape:
        refuse("{}: tensor \"{}\": shape holds {}, expected whole numbers from 0", origin_, name,
               what);
      case Place::kOffsets:
        refuse("{}: tensor \"{}\": data_offsets holds {}, expected two whole numbers from 0",
               origin_, name, what);
      default:
        refuse("{}: tensor \"{}\": \"{}\" is {}, expected {}", origin_, name, printable(key_), what,
               key_ == "dtype" ? "a string" : "a list of whole numbers");
    }
  }

  void mark(bool& seen, const std::string& field) const {
    if (seen) refuse("{}: tensor \"{}\" has \"{}\" twice", origin_, printable(name_), field);
    seen = true;
  }

  DType known_dtype(const std::string& name) const {
    const std::optional<DType> dtype = dtype_from_name(name);
    if (!dtype) {
      refuse("{}: tensor \"{}\": unknown dtype \"{}\"", origin_, printable(name_), printable(name));
    }
    return *dtype;
  }

  bool add_dim(uint64_t x) {
    if (entry_.dims.size() == kMaxDims) {
      refuse("{}: tensor \"{}\" has more than {} dimensions", origin_, printable(name_), kMaxDims);
    }
    if (x > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse("{}: tensor \"{}\": dimension {} is too large", origin_, printable(name_), x);
    }
    entry_.dims.push_back(static_cast<int64_t>(x));
    return true;
  }

  bool add_offset(uint64_t x) {
    if (num_offsets_ == 0) entry_.begin = x;
    if (num_offsets_ == 1) entry_.end = x;
    ++num_offsets_;
    return true;
  }

  void finish_entry() {
    const std::string name = printable(name_);
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      refuse("{}: tensor \"{}\" has no \"{}\"", origin_, name,
             !has_dtype_ ? "dtype" : (!has_shape_ ? "shape" : "data_offsets"));
    }
    if (num_offsets_ != 2) {
      refuse("{}: tensor \"{}\": data_offsets has {} numbers, expected 2", origin_, name,
             num_offsets_);
    }
    header_.entries.emplace(std::move(name_), std::move(entry_));
  }

  const std::string& origin_;
  SafetensorsHeader header_;
  Place place_ = Place::kOutside;
  int depth_ = 0;
  int ignored_from_ = 0;  // depth at which the ignored value began
  std::string key_;       // of the value being read
  std::string name_;      // of the tensor being read
  SafetensorsHeaderEntry entry_;
  int64_t num_offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& origin) {
  // The library takes a NUL byte for the end of the text and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    refuse("{}: the header is not valid JSON: NUL byte at its byte {}", origin, nul);
  }
  HeaderReader reader(origin);
  Json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace llm
