// Tool calls and thinking budgets in `llm run` and `llm chat`, on scripted models and the built-in
// one.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "chat_models.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"
#include "text_goldens.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "get_weather",
    "description": "The current weather of a city", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";
// No token comes twice, so that a chain can spell it.
constexpr const char* kCall = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string tools_file(const char* folder, const std::string& text = kTools) {
  const std::filesystem::path file = fresh_test_dir(folder) / "tools.json";
  write_text(file, text);
  return file.string();
}

/// A model that, with thinking off, answers `text`; each of its tokens may come once.
std::string answering_model(const char* name, const std::string& text) {
  std::vector<int32_t> chain = {id::kTwoNewlines};
  for (const int32_t token : qwen3_tokenizer().encode(text)) chain.push_back(token);
  chain.push_back(id::kEnd);
  return chat_model(name, chain);
}

JsonValue run_json(Args args) {
  args.insert(args.begin(), {"run", "--json"});
  const LlmResult r = run_llm(std::move(args));
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return parse_json(r.out, "run --json");
}

std::vector<int64_t> ids_in(const JsonValue& result) {
  std::vector<int64_t> ids;
  for (const JsonValue& id : result.find("ids")->array) ids.push_back(id.integer);
  return ids;
}

/// A template that leaves the answer inside of a thought.
std::string thought_template(const char* folder) {
  const std::filesystem::path file = fresh_test_dir(folder) / "t.jinja";
  write_text(file, "{{ messages[0].content }}<think>");
  return file.string();
}

}  // namespace

TEST_CASE("V1: run --json gives tool calls as OpenAI's API does") {
  LLM_SKIP_WITHOUT_DATA("tools-json");
  const std::string tools = tools_file("tools-json-file");
  const std::string model = answering_model("tools-json", kCall);
  const JsonValue j = run_json({"-m", model, "--think", "off", "--tools", tools, "hi"});
  CHECK(j.find("content")->string.empty());
  CHECK(j.find("finish_reason")->string == "tool_calls");
  REQUIRE(j.find("tool_calls") != nullptr);
  REQUIRE(j.find("tool_calls")->array.size() == 1);
  const JsonValue& call = j.find("tool_calls")->array[0];
  CHECK(call.find("id")->string == "call_1");
  CHECK(call.find("type")->string == "function");
  CHECK(call.find("function")->find("name")->string == "f");
  CHECK(call.find("function")->find("arguments")->string == "{\"a\":1}");
  // As text: one line of JSON. Without tools: text.
  const Args text = {"run", "-q", "-m", model, "--think", "off", "hi"};
  CHECK(run_llm(text).out == kCall);
  Args with_tools = text;
  with_tools.insert(with_tools.end(), {"--tools", tools});
  CHECK(run_llm(with_tools).out == "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n");
  const JsonValue plain = run_json({"-m", model, "--think", "off", "hi"});
  CHECK(plain.find("tool_calls") == nullptr);
  CHECK(plain.find("content")->string == kCall);
  CHECK(plain.find("finish_reason")->string == "stop");
}

TEST_CASE("V1: a broken tool call stays text and is reported") {
  LLM_SKIP_WITHOUT_DATA("tools-broken");
  const std::string text = "<tool_call>{\"name\": f</tool_call>";
  const std::string model = answering_model("tools-broken", text);
  const LlmResult r = run_llm(
      {"run", "-m", model, "--think", "off", "--tools", tools_file("tools-broken-file"), "hi"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == text);
  CHECK(contains(r.err, "stays text"));
}

TEST_CASE("tools: what can't be used is refused before the model is loaded") {
  for (const char* text : {"", "{}", "[1]", "[", "\"get_weather\""}) {
    const LlmResult r =
        run_llm({"run", "-m", "tiny", "--tools", tools_file("tools-bad", text), "hi"});
    CHECK(r.exit_code == 2);
    CHECK(contains(r.err, "tools.json"));
    CHECK(run_llm({"chat", "-m", "tiny", "--tools", tools_file("tools-bad", text)}).exit_code == 2);
  }
  const std::string tools = tools_file("tools-good");
  CHECK(run_llm({"run", "-m", "tiny", "--raw", "--tools", tools, "hi"}).exit_code == 2);
  CHECK(run_llm({"run", "-m", "tiny", "--raw", "--think-budget", "5", "hi"}).exit_code == 2);
  CHECK(run_llm({"run", "-m", "tiny", "--think-budget", "-1", "hi"}).exit_code == 2);
  CHECK(run_llm({"run", "-m", "tiny", "--tools", "/nonexistent", "hi"}).exit_code == 2);
  const std::filesystem::path both = fresh_test_dir("tools-twice") / "m.json";
  write_text(
      both, std::string("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": ") +
                kTools + "}");
  const LlmResult twice = run_llm(
      {"run", "-m", "tiny", "--messages", both.string(), "--tools", tools_file("tools-once")});
  CHECK(twice.exit_code == 2);
  CHECK(contains(twice.err, "in one place"));
}

TEST_CASE("chat: after a tool call the next message is its result") {
  LLM_SKIP_WITHOUT_DATA("tools-chat");
  const std::string model = answering_model("tools-chat", kCall);
  const std::string saved = (fresh_test_dir("tools-chat-file") / "c.json").string();
  const LlmResult r =
      run_llm({"chat", "-m", model, "--think", "off", "--tools", tools_file("tools-chat-tools")},
              "hi\n{\"t\": 22}\n/save " + saved + "\n");
  CHECK(r.exit_code == 0);
  const std::string call = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n";
  CHECK(r.out == call + call);
  CHECK(contains(r.err, "the next message is the result of f"));
  const JsonValue json = read_json_file(saved);
  const std::vector<JsonValue>& messages = json.find("messages")->array;
  REQUIRE(messages.size() == 4);
  CHECK(messages[1].find("tool_calls")->array[0].find("id")->string == "call_1");
  CHECK(messages[2].find("role")->string == "tool");
  CHECK(messages[2].find("tool_call_id")->string == "call_1");
  CHECK(messages[2].find("content")->string == "{\"t\": 22}");
  CHECK(messages[3].find("tool_calls")->array[0].find("id")->string == "call_2");
  CHECK(json.find("tools")->array.size() == 1);
}

TEST_CASE("V5: a thought is ended at its budget, and the answer follows") {
  LLM_SKIP_WITHOUT_DATA("think-budget");
  const std::string model = thinking_model("think-budget");
  // [<think>, Hello, </think>, blank line, Done, end]: three ids of thought.
  const JsonValue whole = run_json({"-m", model, "hi"});
  CHECK(whole.find("usage")->find("reasoning_tokens")->integer == 3);
  for (const char* enough : {"3", "4", "32"}) {
    CAPTURE(enough);
    const JsonValue same = run_json({"-m", model, "--think-budget", enough, "hi"});
    const bool is_close = std::string(enough) != "3";
    // With no room to spare the thought gets a newline for its end.
    if (is_close) CHECK(ids_in(same) == ids_in(whole));
    CHECK(same.find("usage")->find("reasoning_tokens")->integer == 3);
    CHECK(same.find("content")->string == "Done");
  }
  for (const char* none : {"0", "1", "2"}) {
    const JsonValue cut = run_json({"-m", model, "--think-budget", none, "hi"});
    CHECK(cut.find("content")->string == "Done");
    CHECK(ids_in(cut) ==
          std::vector<int64_t>{id::kThink, id::kEndThink, id::kTwoNewlines, id::kDone, id::kEnd});
  }
}

TEST_CASE("V5: an endless thought ends within the budget") {
  LLM_SKIP_WITHOUT_DATA("think-endless");
  // Hello leads to Done and Done to Hello.
  const std::string model = chat_model("think-endless", {id::kThink, id::kHello, id::kDone}, true);
  const std::string file = thought_template("think-endless-template");
  for (const int64_t budget : {3, 5, 32, 200}) {
    const JsonValue j = run_json({"-m", model, "--think-budget", std::to_string(budget), "-n",
                                  "300", "--chat-template", file, "hi"});
    const std::vector<int64_t> ids = ids_in(j);
    CAPTURE(budget);
    REQUIRE(static_cast<int64_t>(ids.size()) >= budget);
    CHECK(ids[static_cast<size_t>(budget - 1)] == id::kEndThink);
    CHECK(ids[static_cast<size_t>(budget - 2)] == id::kNewline);
    CHECK(j.find("usage")->find("reasoning_tokens")->integer == budget);
    CHECK(contains(j.find("content")->string, "!"));  // a script that ended goes on with id 0
  }
}

TEST_CASE("chat: a budget and tools in a chat, and /set changes the budget") {
  LLM_SKIP_WITHOUT_DATA("think-budget-chat");
  const std::string model = thinking_model("think-budget-chat");
  const LlmResult r = run_llm({"chat", "-m", model, "--show-thinking", "--think-budget", "2"},
                              "hi\n/set think-budget unlimited\n/regen\n");
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done\nDone\n");
  CHECK(contains(r.err, "ended at its budget of 2 tokens"));
  CHECK(contains(r.err, "think-budget unlimited"));
  CHECK(contains(r.err, "Hello"));
}

TEST_CASE("the built-in model calls tools, thinks and keeps to a budget") {
  const std::string tools = tools_file("tools-tiny");
  for (const char* think : {"on", "off"}) {
    const JsonValue j = run_json({"-m", "tiny", "--greedy", "--think", think, "--tools", tools,
                                  "What is the weather in Paris?"});
    CHECK(j.find("finish_reason")->string == "tool_calls");
    REQUIRE(j.find("tool_calls") != nullptr);
    const JsonValue& function = *j.find("tool_calls")->array[0].find("function");
    CHECK(function.find("name")->string == "get_weather");
    CHECK(contains(function.find("arguments")->string, "Paris"));
    CHECK(j.find("reasoning")->is_string() == (std::string(think) == "on"));
  }
  const JsonValue cut = run_json({"-m", "tiny", "--greedy", "--think", "on", "--think-budget", "5",
                                  "What is the capital of China?"});
  CHECK(cut.find("usage")->find("reasoning_tokens")->integer == 5);
  CHECK_FALSE(cut.find("content")->string.empty());
}

TEST_CASE("messages that a template would pass over are refused or warned about") {
  const std::filesystem::path dir = fresh_test_dir("odd-messages");
  const auto ask = [&](const std::string& messages) {
    const std::string file = (dir / "messages.json").string();
    write_text(file, messages);
    return run_llm({"run", "--think", "off", "--messages", file});
  };
  const LlmResult no_role = ask(R"([{"rol": "user", "content": "hi"}])");
  CHECK(no_role.exit_code == 2);
  CHECK_MESSAGE(no_role.err.find("message 1 has no \"role\"") != std::string::npos, no_role.err);
  const LlmResult parts =
      ask(R"([{"role": "user", "content": [{"type": "text", "text": "What is 47 + 38?"}]}])");
  CHECK(parts.exit_code == 0);
  CHECK_MESSAGE(parts.err.find("message 1: its content is a list") != std::string::npos, parts.err);
  const LlmResult none = ask(R"([{"role": "user", "text": "hi"}])");
  CHECK_MESSAGE(none.err.find("message 1 has no \"content\"") != std::string::npos, none.err);
}

}  // namespace llm
