#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/failed_download.h"
#include "base/files.h"
#include "text/byte_level.h"
#include "text/json_event_scanner.h"
#include "text/tokenizer_settings.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr int64_t kMaxFileBytes = 1u << 30;

std::string shown(const Json& value) {
  return abridged(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Many short strings in one buffer.
class StringPool {
 public:
  std::string& bytes() { return bytes_; }
  void end_string() { ends_.push_back(bytes_.size()); }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

/// Takes the parser's events: the two big parts, model.vocab and model.merges, go straight into
/// tables, everything else into a small tree of values.
class EventReader final : public nlohmann::json_sax<Json> {
 public:
  explicit EventReader(std::string path) : path_(std::move(path)) {}

  Json settings;
  Vocabulary vocabulary;
  StringPool merge_parts;  // bytes of merge i's left token at 2 i, of its right one at 2 i + 1
  bool has_vocabulary = false;
  bool has_merges = false;

  bool null() override { return value(nullptr); }
  bool boolean(bool x) override { return value(x); }
  bool number_integer(number_integer_t x) override { return integer(x, x); }
  bool number_unsigned(number_unsigned_t x) override {
    constexpr number_unsigned_t kMax = std::numeric_limits<int64_t>::max();
    return integer(static_cast<int64_t>(std::min(x, kMax)), x);
  }
  bool number_float(number_float_t x, const string_t&) override { return value(x); }
  bool string(string_t& x) override {
    if (part_ == Part::kMerges) return merge_text(x);
    return value(std::move(x));
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& x) override {
    key_ = std::move(x);
    return true;
  }

  bool start_object(size_t) override {
    if (part_ == Part::kSettings && at_model_key("vocab")) {
      if (has_vocabulary) refuse("{}: model.vocab is there twice", path_);
      has_vocabulary = true;
      part_ = Part::kVocabulary;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override { return close(); }

  bool start_array(size_t) override {
    if (part_ == Part::kSettings && at_model_key("merges")) {
      if (has_merges) refuse("{}: model.merges is there twice", path_);
      has_merges = true;
      part_ = Part::kMerges;
      return true;
    }
    if (part_ == Part::kMerges && !in_pair_) {
      in_pair_ = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (in_pair_) {
      if (merge_parts.size() != 2 * (num_merges_ + 1)) malformed_merge();
      ++num_merges_;
      in_pair_ = false;
      return true;
    }
    return close();
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    refuse("{}: not valid JSON at byte {}, near {} (a download cut short?)", path_, position,
           shown(token));
  }

 private:
  enum class Part { kSettings, kVocabulary, kMerges };

  bool at_model_key(std::string_view key) const {
    return open_.size() == 2 && key_ == key && settings.contains("model") &&
           open_.back() == &settings["model"];
  }

  Json* add_setting(Json x) {
    if (open_.empty()) {
      settings = std::move(x);
      return &settings;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(x));
      return &parent.back();
    }
    const auto [member, inserted] = parent.emplace(key_, std::move(x));
    if (!inserted) refuse("{}: the key {} is twice in one object", path_, shown(key_));
    return &*member;
  }

  bool value(Json x) {
    if (part_ == Part::kVocabulary) bad_id(x);
    if (part_ == Part::kMerges) malformed_merge();
    add_setting(std::move(x));
    return true;
  }

  bool open(Json container) {
    if (part_ != Part::kSettings) return value(std::move(container));
    if (open_.size() == kMaxDepth) {
      refuse("{}: nested deeper than {} levels", path_, kMaxDepth);
    }
    open_.push_back(add_setting(std::move(container)));
    return true;
  }

  bool close() {
    if (part_ == Part::kSettings) open_.pop_back();
    part_ = Part::kSettings;
    return true;
  }

  bool integer(int64_t id, Json original) {
    if (part_ != Part::kVocabulary) return value(std::move(original));
    if (id < 0 || id >= kMaxTokenIds) bad_id(original);
    scratch_.clear();
    const bool byte_level = append_bytes_of_spelling(scratch_, key_);
    const int32_t narrow = static_cast<int32_t>(id);
    if (vocabulary.has(narrow)) {
      refuse("{}: model.vocab[{}]: another token has the id {} too", path_, shown(key_), id);
    }
    // Text only ever becomes bytes, so a token spelled otherwise never comes out of it.
    if (!byte_level) return vocabulary.add_unfindable(narrow, scratch_);
    if (!vocabulary.add(narrow, scratch_)) {
      refuse("{}: model.vocab[{}] is there twice", path_, shown(key_));
    }
    return true;
  }

  [[noreturn]] void bad_id(const Json& x) const {
    refuse("{}: model.vocab[{}]: expected an id from 0 to {}, found {}", path_, shown(key_),
           kMaxTokenIds - 1, shown(x));
  }

  /// Either a whole entry, "left right", or one half of a pair.
  bool merge_text(std::string_view text) {
    if (in_pair_) {
      add_merge_part(text);
      return true;
    }
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      malformed_merge();
    }
    add_merge_part(text.substr(0, space));
    add_merge_part(text.substr(space + 1));
    ++num_merges_;
    return true;
  }

  void add_merge_part(std::string_view text) {
    if (text.empty()) malformed_merge();
    append_bytes_of_spelling(merge_parts.bytes(), text);
    merge_parts.end_string();
  }

  [[noreturn]] void malformed_merge() const {
    refuse("{}: model.merges[{}]: expected \"left right\" or [\"left\", \"right\"]", path_,
           num_merges_);
  }

  std::string path_;
  Part part_ = Part::kSettings;
  std::vector<Json*> open_;  // containers of `settings` around the present event
  std::string key_;
  std::string scratch_;
  size_t num_merges_ = 0;  // complete ones
  bool in_pair_ = false;
};

/// Fails early on what is no tokenizer at all.
void check_text(std::string_view text, const std::string& path) {
  refuse_failed_download(text, "JSON", path);
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    refuse("{}: not valid JSON: NUL byte at byte {}", path, nul);
  }
}

std::unique_ptr<EventReader> read_events(std::string_view text, const std::string& path) {
  auto events = std::make_unique<EventReader>(path);
  if (is_valid_utf8(text) && JsonEventScanner(text, *events).scan()) return events;
  // What the quick scanner doesn't know, or what is wrong with the text, the general parser knows.
  events = std::make_unique<EventReader>(path);
  Json::sax_parse(text.begin(), text.end(), events.get());
  return events;
}

/// Looks up the two parts and the result of many merges. That is done for a few merges at a time,
/// so that the lines of memory they need are there by then.
class MergeReader {
 public:
  MergeReader(const StringPool& parts, const Vocabulary& vocabulary, const std::string& path)
      : parts_(parts), vocabulary_(vocabulary), path_(path), merges_(parts.size() / 2) {}

  MergeTable read() {
    const size_t num_merges = parts_.size() / 2;
    if (num_merges > MergeTable::kMaxMerges) {
      refuse("{}: model.merges: more than {} merges", path_, MergeTable::kMaxMerges);
    }
    for (size_t begin = 0; begin < num_merges; begin += kBatch) {
      const size_t count = std::min(kBatch, num_merges - begin);
      for (size_t i = 0; i < count; ++i) announce(begin + i, found_[i]);
      for (size_t i = 0; i < count; ++i) find(begin + i, found_[i]);
      for (size_t i = 0; i < count; ++i) add(begin + i, found_[i]);
    }
    return std::move(merges_);
  }

 private:
  static constexpr size_t kBatch = 32;

  struct Found {
    std::string both;
    int32_t left, right, result;
  };

  std::string_view left(size_t merge) const { return parts_[2 * merge]; }
  std::string_view right(size_t merge) const { return parts_[2 * merge + 1]; }

  void announce(size_t merge, Found& found) const {
    found.both.assign(left(merge)).append(right(merge));
    vocabulary_.prefetch(left(merge));
    vocabulary_.prefetch(right(merge));
  }
  void find(size_t merge, Found& found) {
    found.left = id_of(left(merge), kNoToken, merge);
    found.right = id_of(right(merge), kNoToken, merge);
    // Most files number the results in the order of the merges.
    found.result = id_of(found.both, last_result_ + 1, merge);
    last_result_ = found.result;
    merges_.prefetch_for_add(found.left, found.right);
  }
  void add(size_t merge, const Found& found) {
    if (!merges_.add(found.left, found.right, {static_cast<uint32_t>(merge), found.result})) {
      refuse("{}: model.merges[{}]: the same two tokens merge earlier in the list", path_, merge);
    }
  }

  int32_t id_of(std::string_view bytes, int32_t expected, size_t merge) const {
    const int32_t id = vocabulary_.find(bytes, expected);
    if (id == kNoToken) {
      refuse("{}: model.merges[{}]: {} isn't in model.vocab", path_, merge,
             shown(spelling_of_bytes(bytes)));
    }
    return id;
  }

  const StringPool& parts_;
  const Vocabulary& vocabulary_;
  const std::string& path_;
  MergeTable merges_;
  std::array<Found, kBatch> found_;
  int32_t last_result_ = kNoToken;
};

bool every_byte_has_token(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (vocabulary.find({&c, 1}) == kNoToken) return false;
  }
  return true;
}

/// The token for bytes without one.
int32_t unknown_token(const Json& model, const Vocabulary& vocabulary, const std::string& path) {
  const Json unk = model.value("unk_token", Json());
  if (unk.is_null() || every_byte_has_token(vocabulary)) return kNoToken;
  if (model.value("fuse_unk", Json()) == true) {
    refuse("{}: model.fuse_unk: true isn't supported where bytes lack a token", path);
  }
  std::string bytes;
  if (unk.is_string()) append_bytes_of_spelling(bytes, unk.get_ref<const std::string&>());
  const int32_t id = vocabulary.find(bytes);
  if (id == kNoToken) refuse("{}: model.unk_token: {} isn't in model.vocab", path, shown(unk));
  return id;
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::string text = read_file(path, kMaxFileBytes);
  check_text(text, name);
  const std::unique_ptr<EventReader> reader = read_events(text, name);
  EventReader& events = *reader;

  TokenizerFile file{.vocabulary = std::move(events.vocabulary), .merges = MergeTable(0)};
  read_tokenizer_settings(events.settings.dump(), name, file);
  if (!events.has_vocabulary) refuse("{}: model.vocab is missing", name);
  if (!events.has_merges) refuse("{}: model.merges is missing", name);
  file.bpe_options.unknown_token = unknown_token(events.settings["model"], file.vocabulary, name);
  file.merges = MergeReader(events.merge_parts, file.vocabulary, name).read();
  return file;
}

}  // namespace llm
