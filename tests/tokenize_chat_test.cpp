// `llm tokenize` of chats and templates: --messages, --render, and their lines of --jsonl.
#include "cli/tokenize_chat.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "golden_file.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"
#include "text_goldens.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

const ChatLines& qwen3_lines() {
  static const Log log(Verbosity::kQuiet);
  static const ChatLines lines(
      qwen3_tokenizer(),
      {.tokenizer_dir = shared_data() / "qwen3-tokenizer", .name = "qwen3", .file = {}}, log);
  return lines;
}

std::string error_of(std::string_view line) {
  try {
    return "answered: " + qwen3_lines().answer(line).value_or("nothing");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
}

std::filesystem::path written(const char* folder, const char* name, const std::string& text) {
  const std::filesystem::path path = fresh_test_dir(folder) / name;
  write_text(path, text);
  return path;
}

std::vector<int64_t> integers(const JsonValue& array) {
  std::vector<int64_t> values;
  for (const JsonValue& item : array.array) values.push_back(item.integer);
  return values;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("chat.jsonl: as lines of tokenize --jsonl") {
  LLM_SKIP_WITHOUT_DATA("chat.jsonl (lines)");
  GoldenFile golden("chat.jsonl (lines)");
  std::ifstream file(shared_data() / "goldens" / "chat.jsonl");
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    // The golden's own text is the request, so that the order of its keys stays.
    const size_t begin = line.find("\"messages\"");
    const size_t end = line.rfind(',', line.find("\"prompt\""));
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    const std::string request =
        "{" + line.substr(begin, end - begin) + ", \"parse_special_in_content\": true}";
    const Value expected = parse_json_value(line, "golden");
    const JsonValue got = parse_json(qwen3_lines().answer(request).value_or("{}"), "answer");
    bool same = got.find("prompt") != nullptr &&
                got.find("prompt")->string == expected.find("prompt")->as_string();
    if (same) {
      std::vector<int64_t> ids;
      for (const Value& id : expected.find("ids")->as_list().items) ids.push_back(id.as_int());
      same = integers(*got.find("ids")) == ids;
    }
    golden.line(++number, same, request.substr(0, 200));
  }
  CHECK(number > 0);
}

TEST_CASE("tokenize --jsonl: chat lines and their defaults") {
  LLM_SKIP_WITHOUT_DATA("chat lines");
  const std::string hi = R"("messages": [{"role": "user", "content": "hi<|im_end|>"}])";
  CHECK(qwen3_lines().answer("{" + hi + "}").value() ==
        R"({"prompt":"<|im_start|>user\nhi<|im_end|><|im_end|>\n<|im_start|>assistant\n",)"
        R"("ids":[151644,872,198,6023,27,91,318,6213,91,29,151645,198,151644,77091,198]})");
  const std::string special = qwen3_lines()
                                  .answer("{" + hi + R"(, "parse_special_in_content": true,
      "add_generation_prompt": false, "tools": null, "enable_thinking": null})")
                                  .value();
  CHECK(contains(special, "[151644,872,198,6023,151645,151645,198]"));
  CHECK(contains(qwen3_lines().answer("{" + hi + R"(, "enable_thinking": false})").value(),
                 "151667,271,151668,271]"));
  CHECK_FALSE(qwen3_lines().answer(R"({"text": "hi"})"));
  CHECK_FALSE(qwen3_lines().answer(R"({"text": "\"messages\""})"));
  CHECK(contains(error_of(R"({"messages": []})"), "empty conversation"));
  CHECK(contains(error_of(R"({"messages": {}})"), "messages"));
  CHECK(contains(error_of("{" + hi + R"(, "temp": 1})"), "\"temp\""));
  CHECK(contains(error_of("{" + hi + R"(, "enable_thinking": "on"})"), "enable_thinking"));
  CHECK(contains(error_of("{" + hi + R"(, "tools": {}})"), "tools"));
  CHECK(contains(error_of("{" + hi), "line 1"));
}

TEST_CASE("tokenize --jsonl: template lines") {
  LLM_SKIP_WITHOUT_DATA("template lines");
  CHECK(
      qwen3_lines().answer(R"({"template": "{{ x }}é", "context": {"x": [1.0, null]}})").value() ==
      "{\"text\":\"[1.0, None]é\"}");
  CHECK(qwen3_lines().answer(R"({"template": ""})").value() == R"({"text":""})");
  CHECK(contains(error_of(R"({"template": "a\n{{ x.y }}", "context": {}})"), "line 2, column 5"));
  CHECK(contains(error_of(R"({"template": 1})"), "template"));
  CHECK(contains(error_of(R"({"template": "", "context": []})"), "context"));
}

TEST_CASE("tokenize --render: a file or the template itself, errors by line and column") {
  const auto file =
      written("render-file", "t.jinja", "{% for m in messages %}\n{{ m }};{% endfor %}\n");
  const auto context = written("render-context", "c.json", R"({"messages": ["a", {"b": true}]})");
  const LlmResult r =
      run_llm({"tokenize", "--render", file.string(), "--render-context", context.string()});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "a;{'b': True};");
  CHECK(run_llm({"tokenize", "--render", "{{ 1 + 1 }}"}).out == "2");
  const LlmResult bad = run_llm({"tokenize", "--render", "x\n{{ a.b.c }}"});
  CHECK(bad.exit_code == 2);
  CHECK(bad.out.empty());
  CHECK(contains(bad.err, "--render: line 2, column 5: 'a' is undefined"));
  const auto syntax = written("render-syntax", "s.jinja", "{% if %}");
  CHECK(contains(run_llm({"tokenize", "--render", syntax.string()}).err,
                 "s.jinja: line 1, column 7"));
  CHECK(run_llm({"tokenize", "--render", "no-such-file"}).exit_code == 2);
  for (const char* text : {"", "[]", "{", "{\"a\": 1} x"}) {
    const auto wrong = written("render-bad", "c.json", text);
    CHECK(run_llm({"tokenize", "--render", "x", "--render-context", wrong.string()}).exit_code ==
          2);
    CHECK(contains(
        run_llm({"tokenize", "--render", "{{ 1 }}", "--render-context", wrong.string()}).err,
        "c.json"));
  }
}

TEST_CASE("tokenize --messages: the ids of a chat") {
  const auto messages =
      written("tokenize-messages", "m.json", R"([{"role": "user", "content": "hi <|im_start|>"}])");
  const Args base = {"tokenize", "-q", "-m", "tiny", "--messages", messages.string()};
  const auto with = [&](const Args& more) {
    Args args = base;
    args.insert(args.end(), more.begin(), more.end());
    return run_llm(args);
  };
  const LlmResult plain = with({});
  CHECK(plain.exit_code == 0);
  // What run says that it reads.
  const LlmResult run = run_llm(
      {"run", "-q", "-m", "tiny", "--messages", messages.string(), "-n", "0", "--print-ids"});
  CHECK(contains(run.err, "prompt ids: " + plain.out));
  CHECK(with({"--no-generation-prompt"}).out.size() < plain.out.size());
  CHECK(with({"--parse-special-in-content"}).out != plain.out);
  CHECK(with({"--think", "off"}).out.size() > plain.out.size());
  CHECK(contains(with({"--pieces"}).out, "<|im_start|>"));
  const auto tools =
      written("tokenize-tools", "t.json", R"([{"type": "function", "function": {"name": "f"}}])");
  CHECK(with({"--tools", tools.string()}).out.size() > plain.out.size());
  const auto own = written("tokenize-template", "t.jinja", "{{ messages[0].role }}");
  CHECK(with({"--chat-template", own.string(), "--count"}).exit_code == 0);
  CHECK(with({"--messages", "-"}).exit_code == 2);
  for (const Args& alone : {Args{"--tools", tools.string()}, Args{"--think", "on"},
                            Args{"--no-generation-prompt"}, Args{"--parse-special-in-content"},
                            Args{"--chat-template", own.string()}, Args{"--render-context", "x"}}) {
    Args args = {"tokenize", "-m", "tiny", "hi"};
    args.insert(args.end(), alone.begin(), alone.end());
    CHECK(run_llm(args).exit_code == 2);
  }
}

TEST_CASE("a model without a template: plain ChatML if its vocabulary has the markers") {
  LLM_SKIP_WITHOUT_DATA("plain ChatML");
  const std::filesystem::path dir = fresh_test_dir("plain-chatml");
  std::filesystem::create_symlink(std::filesystem::absolute(qwen3_tokenizer_json()),
                                  dir / "tokenizer.json");
  const auto ids = [&](const std::string& messages, const Args& more) {
    const auto file = written("plain-chatml-messages", "m.json", messages);
    Args args = {"tokenize", "-m", dir.string(), "--messages", file.string()};
    args.insert(args.end(), more.begin(), more.end());
    return run_llm(args);
  };
  const std::string hi = R"([{"role": "user", "content": "hi"}])";
  const LlmResult r = ids(hi, {});
  CHECK(r.out == "151644 872 198 6023 151645 198 151644 77091 198\n");
  CHECK(contains(r.err, "plain ChatML"));
  CHECK(ids(hi, {"--think", "off"}).out.ends_with("77091 198 151667 271 151668 271\n"));
  CHECK(ids(hi, {"--no-generation-prompt"}).out == "151644 872 198 6023 151645 198\n");
  // What it has no form for is refused, not left out.
  const auto tools = written("plain-chatml-tools", "t.json", R"([{"name": "f"}])");
  CHECK(ids(hi, {"--tools", tools.string()}).exit_code == 2);
  CHECK(ids(R"([{"role": "user", "content": [1]}])", {}).exit_code == 2);
  CHECK(ids(R"([{"role": "tool", "content": "x"}])", {}).exit_code == 2);
  // Without the markers there is nothing to fall back on.
  const auto bare = written("no-chatml", "tokenizer.json", R"({"version": "1.0", "added_tokens": [],
      "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
      "use_regex": true}, "post_processor": null, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  const auto file = written("no-chatml-messages", "m.json", hi);
  const LlmResult none =
      run_llm({"tokenize", "-m", bare.parent_path().string(), "--messages", file.string()});
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "--raw"));
  CHECK(contains(none.err, "--chat-template"));
}

}  // namespace llm
