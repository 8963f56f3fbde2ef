#include "text/tokenizer_settings.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/unicode.h"

namespace llm {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  return abridged(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Reads the settings and says which one it can't follow.
class SettingsReader {
 public:
  SettingsReader(Json settings, const std::string& path)
      : settings_(std::move(settings)), path_(path) {}

  void read(TokenizerFile& file) const {
    if (!settings_.is_object()) refuse("{}: expected a JSON object", path_);
    read_model(member(settings_, "model"), file);
    file.nfc = normalizes(member(settings_, "normalizer"));
    read_pre_tokenizer(member(settings_, "pre_tokenizer"), file.pre_tokenizer_steps);
    check_decoder(member(settings_, "decoder"));
    read_added_tokens(member(settings_, "added_tokens"), file);
    read_post_processor(member(settings_, "post_processor"), file);
  }

 private:
  /// The member with this key; null if there is none.
  static const Json& member(const Json& object, const char* key) {
    static const Json kNull;
    const auto found = object.find(key);
    return found == object.end() ? kNull : *found;
  }

  [[noreturn]] void unsupported(const std::string& key, const Json& found,
                                std::string_view supported) const {
    refuse("{}: {}: {} isn't supported, only {}", path_, key, shown(found), supported);
  }

  [[noreturn]] void wrong_type(const std::string& key, const Json& found,
                               std::string_view expected) const {
    refuse("{}: {}: expected {}, found {}", path_, key, expected, shown(found));
  }

  /// Absent and null mean `otherwise`.
  bool flag(const Json& object, const std::string& where, const char* key, bool otherwise) const {
    const Json& value = member(object, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) wrong_type(where + "." + key, value, "true or false");
    return value.get<bool>();
  }

  void require_flag(const Json& object, const std::string& where, const char* key, bool only,
                    bool otherwise) const {
    if (flag(object, where, key, otherwise) != only) {
      unsupported(where + "." + key, !only, only ? "true" : "false");
    }
  }

  /// The "type" of a step; empty for null.
  std::string type_of(const Json& step, const std::string& where) const {
    if (step.is_null()) return {};
    if (!step.is_object()) wrong_type(where, step, "an object");
    const Json& type = member(step, "type");
    if (!type.is_string()) wrong_type(where + ".type", type, "a string");
    return type.get<std::string>();
  }

  /// Calls visit(step, where) for a step, or for each one of a "Sequence" whose list is at `key`.
  template <typename Visit>
  void for_each_step(const Json& step, const std::string& where, const char* key,
                     const Visit& visit) const {
    if (type_of(step, where) != "Sequence") return visit(step, where);
    const Json& steps = member(step, key);
    if (!steps.is_array()) wrong_type(where + "." + key, steps, "a list");
    for (size_t i = 0; i < steps.size(); ++i) {
      for_each_step(steps[i], fmt::format("{}.{}[{}]", where, key, i), key, visit);
    }
  }

  void read_model(const Json& model, TokenizerFile& file) const {
    if (!model.is_object()) wrong_type("model", model, "an object");
    if (const Json& type = member(model, "type"); !type.is_null() && type != "BPE") {
      unsupported("model.type", type, "\"BPE\"");
    }
    if (const Json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0) {
      unsupported("model.dropout", dropout, "null");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& affix = member(model, key);
      if (!affix.is_null() && affix != "") unsupported(fmt::format("model.{}", key), affix, "\"\"");
    }
    require_flag(model, "model", "byte_fallback", false, false);
    file.bpe_options.ignore_merges = flag(model, "model", "ignore_merges", false);
    for (const char* key : {"vocab", "merges"}) {
      const Json& value = member(model, key);
      if (!value.is_null()) {
        wrong_type(fmt::format("model.{}", key), value, key[0] == 'v' ? "an object" : "a list");
      }
    }
  }

  bool normalizes(const Json& normalizer) const {
    bool nfc = false;
    for_each_step(normalizer, "normalizer", "normalizers",
                  [&](const Json& step, const std::string& where) {
                    const std::string type = type_of(step, where);
                    if (!type.empty() && type != "NFC") unsupported(where, step, "NFC or null");
                    nfc |= type == "NFC";
                  });
    return nfc;
  }

  void read_pre_tokenizer(const Json& pre_tokenizer, std::vector<PreTokenizer::Step>& steps) const {
    bool byte_level = false;
    for_each_step(pre_tokenizer, "pre_tokenizer", "pretokenizers",
                  [&](const Json& step, const std::string& where) {
                    // What comes after ByteLevel would see its spelling of bytes.
                    if (byte_level) unsupported(where, step, "ByteLevel as the last step");
                    byte_level = type_of(step, where) == "ByteLevel";
                    add_steps(step, where, steps);
                  });
    if (!byte_level) unsupported("pre_tokenizer", pre_tokenizer, "a list that ends in ByteLevel");
  }

  void add_steps(const Json& step, const std::string& where,
                 std::vector<PreTokenizer::Step>& steps) const {
    const std::string type = type_of(step, where);
    if (type == "ByteLevel") {
      if (flag(step, where, "add_prefix_space", true)) steps.emplace_back(PrefixSpace{});
      if (flag(step, where, "use_regex", true)) steps.emplace_back(scan_gpt2);
    } else if (type == "Digits") {
      const bool individual = flag(step, where, "individual_digits", false);
      steps.emplace_back(individual ? scan_digits : scan_digit_runs);
    } else if (type == "Split") {
      steps.push_back(split_step(step, where));
    } else {
      unsupported(where, step, "Split, Digits and ByteLevel");
    }
  }

  PreTokenizer::Step split_step(const Json& step, const std::string& where) const {
    const Json& pattern = member(step, "pattern");
    const bool is_literal = pattern.is_object() && pattern.contains("String");
    const Json& text =
        pattern.is_object() ? member(pattern, is_literal ? "String" : "Regex") : pattern;
    if (!text.is_string()) wrong_type(where + ".pattern", pattern, "{\"Regex\": \"...\"}");
    const std::string& source = text.get_ref<const std::string&>();
    const SplitBehavior behavior = behavior_of(step, where);
    const bool invert = flag(step, where, "invert", false);
    if (!is_literal && !invert && behavior == SplitBehavior::kIsolated) {
      if (const Scanner scanner = scanner_for_pattern(source)) return scanner;
    }
    try {
      return Split(is_literal ? SplitPattern::literal(source) : SplitPattern(source), behavior,
                   invert);
    } catch (const Error& error) {
      refuse("{}: {}.pattern: {}: {}", path_, where, shown(pattern), error.what());
    }
  }

  SplitBehavior behavior_of(const Json& step, const std::string& where) const {
    struct Named {
      const char* name;
      SplitBehavior behavior;
    };
    constexpr std::array kBehaviors = {
        Named{"Isolated", SplitBehavior::kIsolated}, Named{"Removed", SplitBehavior::kRemoved},
        Named{"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        Named{"MergedWithNext", SplitBehavior::kMergedWithNext},
        Named{"Contiguous", SplitBehavior::kContiguous}};
    const Json& name = member(step, "behavior");
    for (const Named& named : kBehaviors) {
      if (name == named.name) return named.behavior;
    }
    unsupported(where + ".behavior", name,
                "Isolated, Removed, MergedWithPrevious, MergedWithNext and Contiguous");
  }

  void check_decoder(const Json& decoder) const {
    bool byte_level = false;
    for_each_step(decoder, "decoder", "decoders", [&](const Json& step, const std::string& where) {
      const std::string type = type_of(step, where);
      // Once ByteLevel has made text of all tokens, Fuse has nothing left to do.
      if (type != "ByteLevel" && (type != "Fuse" || !byte_level)) {
        unsupported(where, step, "ByteLevel");
      }
      byte_level = true;
    });
    if (!byte_level) unsupported("decoder", decoder, "ByteLevel");
  }

  /// ByteLevel only adjusts offsets, which nobody here asks for.
  void read_post_processor(const Json& post_processor, TokenizerFile& file) const {
    bool has_template = false;
    for_each_step(post_processor, "post_processor", "processors",
                  [&](const Json& step, const std::string& where) {
                    const std::string type = type_of(step, where);
                    if (type == "TemplateProcessing") {
                      if (has_template) unsupported(where, step, "one TemplateProcessing");
                      has_template = true;
                      read_template(step, where, file);
                    } else if (!type.empty() && type != "ByteLevel") {
                      unsupported(where + ".type", type, "ByteLevel, TemplateProcessing or null");
                    }
                  });
  }

  /// "single": a list of {"SpecialToken": {"id"}} around one {"Sequence": {"id": "A"}}.
  void read_template(const Json& step, const std::string& where, TokenizerFile& file) const {
    const Json& list = member(step, "single");
    if (!list.is_array()) wrong_type(where + ".single", list, "a list");
    bool has_text = false;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string part = fmt::format("{}.single[{}]", where, i);
      if (!list[i].is_object()) wrong_type(part, list[i], "an object");
      const Json& sequence = member(list[i], "Sequence");
      const Json& token = member(list[i], "SpecialToken");
      if (token.is_object()) {
        append_special_ids(step, where, member(token, "id"),
                           has_text ? file.suffix_ids : file.prefix_ids);
      } else if (sequence.is_object() && member(sequence, "id") == "A" && !has_text) {
        has_text = true;
      } else {
        unsupported(part, list[i], "special tokens around one sequence A");
      }
    }
    if (!has_text) unsupported(where + ".single", list, "special tokens around one sequence A");
  }

  /// Appends the ids that the template's "special_tokens" has for a name.
  void append_special_ids(const Json& step, const std::string& where, const Json& name,
                          std::vector<int32_t>& ids) const {
    if (!name.is_string()) wrong_type(where + ".single", name, "the id of a special token");
    const Json& special_tokens = member(step, "special_tokens");
    const std::string& key = name.get_ref<const std::string&>();
    const std::string entry = fmt::format("{}.special_tokens[{}]", where, shown(name));
    const Json& special =
        special_tokens.is_object() && special_tokens.contains(key) ? special_tokens[key] : Json();
    const Json& list = special.is_object() ? member(special, "ids") : special;
    if (!list.is_array()) wrong_type(entry, special, "an object with \"ids\"");
    for (const Json& id : list) ids.push_back(token_id(id, entry + ".ids"));
  }

  int32_t token_id(const Json& id, const std::string& where) const {
    if (!id.is_number_integer() || id < 0 || id >= kMaxTokenIds) {
      wrong_type(where, id, fmt::format("an id from 0 to {}", kMaxTokenIds - 1));
    }
    return id.get<int32_t>();
  }

  void read_added_tokens(const Json& list, TokenizerFile& file) const {
    if (list.is_null()) return;
    if (!list.is_array()) wrong_type("added_tokens", list, "a list");
    std::unordered_set<std::string> contents;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("added_tokens[{}]", i);
      AddedToken token = added_token(list[i], where);
      if (!contents.insert(token.content).second) {
        refuse("{}: {}: {} is there twice", path_, where, shown(token.content));
      }
      check_agrees(token, where, file.vocabulary);
      // From here on such a token is its normalized text, for the reference too.
      if (token.normalized && file.nfc) token.content = to_nfc(token.content);
      add_to_vocabulary(token, where, file.vocabulary);
      file.added_tokens.push_back(std::move(token));
    }
  }

  AddedToken added_token(const Json& entry, const std::string& where) const {
    if (!entry.is_object()) wrong_type(where, entry, "an object");
    const int32_t id = token_id(member(entry, "id"), where + ".id");
    const Json& content = member(entry, "content");
    if (!content.is_string() || content == "") {
      wrong_type(where + ".content", content, "a string that isn't empty");
    }
    return {.id = id,
            .content = content.get<std::string>(),
            .special = flag(entry, where, "special", false),
            .normalized = flag(entry, where, "normalized", false),
            .single_word = flag(entry, where, "single_word", false),
            .lstrip = flag(entry, where, "lstrip", false),
            .rstrip = flag(entry, where, "rstrip", false)};
  }

  /// An added token may be in the vocabulary already, if id and spelling agree.
  void check_agrees(const AddedToken& token, const std::string& where,
                    const Vocabulary& vocabulary) const {
    std::string bytes;
    const bool byte_level = append_bytes_of_spelling(bytes, token.content);
    const int32_t listed = byte_level ? vocabulary.find(bytes) : kNoToken;
    if (listed != kNoToken && listed != token.id) contradicts(token, where);
  }

  void add_to_vocabulary(const AddedToken& token, const std::string& where,
                         Vocabulary& vocabulary) const {
    std::string bytes;
    append_bytes_of_spelling(bytes, token.content);
    const bool is_listed = vocabulary.has(token.id) && vocabulary.bytes_of(token.id) == bytes;
    if (!is_listed && !vocabulary.add_unfindable(token.id, bytes)) contradicts(token, where);
  }

  [[noreturn]] void contradicts(const AddedToken& token, const std::string& where) const {
    refuse("{}: {}: {} has the id {}, which contradicts another token", path_, where,
           shown(token.content), token.id);
  }

  const Json settings_;
  const std::string& path_;
};

}  // namespace

void read_tokenizer_settings(const std::string& settings, const std::string& path,
                             TokenizerFile& file) {
  SettingsReader(Json::parse(settings), path).read(file);
}

std::string abridged(std::string json) {
  constexpr size_t kLimit = 200;
  if (json.size() <= kLimit) return json;
  size_t end = kLimit;
  while ((json[end] & 0xc0) == 0x80) --end;  // not inside a character
  return json.substr(0, end) + "...";
}

}  // namespace llm
