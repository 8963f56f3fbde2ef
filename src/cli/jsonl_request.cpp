#include "cli/jsonl_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace {

constexpr std::array kKeys = {"id",
                              "prompt",
                              "messages",
                              "token_ids",
                              "tools",
                              "think",
                              "max_tokens",
                              "temperature",
                              "top_k",
                              "top_p",
                              "min_p",
                              "repetition_penalty",
                              "presence_penalty",
                              "frequency_penalty",
                              "stop",
                              "seed",
                              "ignore_eos"};

void check_keys(const Value& line) {
  for (const auto& [key, value] : line.as_dict().entries()) {
    const std::string& name = key.as_string();
    if (std::find(kKeys.begin(), kKeys.end(), name) == kKeys.end()) {
      refuse("unknown key \"{}\"; known here: {}", printable(name), fmt::join(kKeys, ", "));
    }
  }
}

/// The value of a key; null counts as absent.
const Value* find_set(const Value& line, std::string_view key) {
  const Value* value = line.find(key);
  return value == nullptr || value->is_none() ? nullptr : value;
}

[[noreturn]] void wrong_type(std::string_view key, std::string_view expected, const Value& value) {
  refuse("\"{}\": expected {}, found a value of type {}", key, expected, value.type_name());
}

std::optional<int64_t> integer(const Value& line, std::string_view key, int64_t min) {
  const Value* value = find_set(line, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_int()) wrong_type(key, "a whole number", *value);
  if (value->as_int() < min)
    refuse("\"{}\" is {}, but must be {} or more", key, value->as_int(), min);
  return value->as_int();
}

std::optional<double> number(const Value& line, std::string_view key) {
  const Value* value = find_set(line, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->is_bool()) wrong_type(key, "a number", *value);
  return value->as_float();
}

bool flag(const Value& line, std::string_view key, bool otherwise) {
  const Value* value = find_set(line, key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) wrong_type(key, "true or false", *value);
  return value->as_bool();
}

const std::string& text(const Value& value, std::string_view key) {
  if (!value.is_string()) wrong_type(key, "a string", value);
  return value.as_string();
}

std::vector<std::string> stops_of(const Value& line, const std::vector<std::string>& otherwise) {
  const Value* value = find_set(line, "stop");
  if (value == nullptr) return otherwise;
  std::vector<std::string> stops;
  if (value->is_list()) {
    for (const Value& item : value->as_list().items) stops.push_back(text(item, "stop"));
  } else {
    stops.push_back(text(*value, "stop"));
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) refuse("\"stop\": an empty text would end every answer");
  }
  return stops;
}

std::vector<int32_t> ids_of(const Value& value) {
  if (!value.is_list()) wrong_type("token_ids", "a list of ids", value);
  std::vector<int32_t> ids;
  for (const Value& id : value.as_list().items) {
    const bool fits =
        id.is_int() && id.as_int() >= 0 && id.as_int() <= std::numeric_limits<int32_t>::max();
    if (!fits) refuse("\"token_ids\"[{}]: expected a whole number from 0 on", ids.size());
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

Think think_of(const Value& line, Think otherwise) {
  const Value* value = find_set(line, "think");
  if (value == nullptr) return otherwise;
  const std::optional<Think> think = parse_think(text(*value, "think"));
  if (!think) refuse("\"think\" is {}: expected on, off or auto", json_quote(value->as_string()));
  return *think;
}

}  // namespace

Value JsonlReader::parse(std::string_view line) {
  Value value = parse_json_value(line, "request");
  if (!value.is_dict()) refuse("expected an object, found a value of type {}", value.type_name());
  return value;
}

std::string JsonlReader::id_of(const Value& line, int64_t number) {
  const Value* id = find_set(line, "id");
  if (id == nullptr) return fmt::format("{}", number);
  if (!id->is_string() && !id->is_int()) wrong_type("id", "text or a whole number", *id);
  return to_json(*id).str();
}

JsonlRequest JsonlReader::request_of(const Value& line) {
  check_keys(line);
  JsonlRequest made;
  made.prompt = prompt_of(line);
  made.stops = stops_of(line, options_->answer.stops);
  Request& request = made.request;
  request.prompt_ids = made.prompt.ids;
  request.sampling = sampling_of(line);
  if (!flag(line, "ignore_eos", options_->ignore_eos)) request.stop_ids = made.prompt.stop_ids;
  request.max_tokens =
      integer(line, "max_tokens", 0).value_or(options_->answer.max_tokens.value_or(kNoTokenLimit));
  request.num_ids = files_->num_ids();
  request.num_logprobs = options_->logprobs;
  return made;
}

Prompt JsonlReader::prompt_of(const Value& line) {
  const Value* prompt = find_set(line, "prompt");
  const Value* messages = find_set(line, "messages");
  const Value* token_ids = find_set(line, "token_ids");
  if ((prompt != nullptr) + (messages != nullptr) + (token_ids != nullptr) != 1) {
    refuse("expected one of \"prompt\", \"messages\" and \"token_ids\"");
  }
  const bool raw = token_ids != nullptr || (options_->raw && messages == nullptr);
  if (raw) {
    Prompt made;
    made.stop_ids = files_->stop_ids;
    made.ids = token_ids != nullptr ? ids_of(*token_ids)
                                    : tokenizer_of(*files_).encode_prompt(text(*prompt, "prompt"));
    if (made.ids.empty()) refuse("the prompt is empty: it has no tokens");
    check_vocabulary(made, *files_);
    return made;
  }
  if (!prompter_) prompter_.emplace(*files_, options_->answer, *log_);
  const Value* tools = find_set(line, "tools");
  if (tools != nullptr && !tools->is_list()) wrong_type("tools", "a list", *tools);
  const std::optional<Value> offered = tools != nullptr ? std::optional(*tools) : std::nullopt;
  const Think think = think_of(line, options_->answer.think);
  if (messages != nullptr) {
    if (!messages->is_list()) wrong_type("messages", "a list", *messages);
    return prompter_->make(*messages, offered, think);
  }
  std::vector<Value> chat;
  if (options_->answer.system) chat.push_back(text_message("system", *options_->answer.system));
  if (text(*prompt, "prompt").empty()) refuse("the prompt is empty");
  chat.push_back(text_message("user", text(*prompt, "prompt")));
  return prompter_->make(Value::list(std::move(chat)), offered, think);
}

SamplingParams JsonlReader::sampling_of(const Value& line) const {
  SamplingOptions options = options_->sampling;
  const auto take = [&](std::string_view key, std::optional<double>& to) {
    if (const auto value = number(line, key)) to = value;
  };
  if (number(line, "temperature")) options.greedy = false;
  take("temperature", options.temperature);
  take("top_p", options.top_p);
  take("min_p", options.min_p);
  take("repetition_penalty", options.repetition_penalty);
  take("presence_penalty", options.presence_penalty);
  take("frequency_penalty", options.frequency_penalty);
  if (const auto top_k = integer(line, "top_k", -1)) options.top_k = top_k;
  const uint64_t seed =
      find_set(line, "seed") != nullptr ? static_cast<uint64_t>(*integer(line, "seed", 0)) : seed_;
  const SamplingParams params = resolve_sampling(options, files_->generation, seed);
  validate(params);
  return params;
}

}  // namespace llm
