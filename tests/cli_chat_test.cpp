// `llm chat` through pipes: one message per line; and the loop guard of run and chat.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "chat_models.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LlmResult chat(const std::string& model, const std::string& input, const Args& more = {}) {
  Args args = {"chat", "-m", model};
  args.insert(args.end(), more.begin(), more.end());
  return run_llm(args, input);
}

/// "role:content" of a saved conversation, one per message.
std::vector<std::string> saved_messages(const std::filesystem::path& path) {
  std::vector<std::string> all;
  const JsonValue json = read_json_file(path);
  for (const JsonValue& message : json.find("messages")->array) {
    all.push_back(message.find("role")->string + ":" + message.find("content")->string);
  }
  return all;
}

/// The numbers before `unit` in the lines of /stats that hold it.
std::vector<int64_t> numbers_before(const std::string& text, const std::string& unit) {
  std::vector<int64_t> numbers;
  for (size_t at = text.find(unit); at != std::string::npos; at = text.find(unit, at + 1)) {
    size_t begin = at;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
    numbers.push_back(std::stoll("0" + text.substr(begin, at - begin)));
  }
  return numbers;
}

TEST_CASE("chat: each line of a pipe is answered by a line") {
  LLM_SKIP_WITHOUT_DATA("chat-pipe");
  const std::string model = thinking_model("chat-pipe");
  const LlmResult r = chat(model, "hi\n\nagain\nno newline at the end", {"--think", "off"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done\nDone\nDone\n");
  CHECK_FALSE(contains(r.out + r.err, "\x1b"));
  CHECK(contains(r.err, "chat template"));
  CHECK(chat(model, "").exit_code == 0);
  CHECK(chat(model, "").out.empty());
}

TEST_CASE("chat: thoughts stay out of the answer, and on stderr if asked for") {
  LLM_SKIP_WITHOUT_DATA("chat-thoughts");
  const std::string model = thinking_model("chat-thoughts");
  const LlmResult silent = chat(model, "hi\n");
  CHECK(silent.out == "Done\n");
  CHECK_FALSE(contains(silent.err, "Hello"));
  const LlmResult shown = chat(model, "hi\n", {"--show-thinking", "-q"});
  CHECK(shown.out == "Done\n");
  CHECK(shown.err == "Hello\n");
  const LlmResult off = chat(model, "hi\n/think on\nhi\n", {"--think", "off", "--show-thinking"});
  CHECK(off.out == "Done\nDone\n");
  CHECK(numbers_before(off.err, "Hello\n").size() == 1);
}

TEST_CASE("chat: old thoughts are saved, but not in the prompt") {
  LLM_SKIP_WITHOUT_DATA("chat-old-thoughts");
  const std::string model = thinking_model("chat-old-thoughts");
  const std::filesystem::path saved = fresh_test_dir("chat-old-thoughts-file") / "c.json";
  const LlmResult r = chat(model, "hi\n/save " + saved.string() + "\nagain\n/stats\n");
  CHECK(r.exit_code == 0);
  CHECK(contains(file_text(saved), "\"reasoning_content\": \"Hello\""));
  const std::filesystem::path plain = fresh_test_dir("chat-plain-file") / "c.json";
  write_text(plain, R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Done"},
                        {"role": "user", "content": "again"}])");
  const LlmResult same = chat(model, "/load " + plain.string() + "\n/regen\n/stats\n");
  const std::string prompt = "prompt " + std::to_string(numbers_before(same.err, " tokens, ")[0]);
  CHECK_MESSAGE(contains(r.err, prompt), r.err);
}

TEST_CASE("chat: later turns reuse the cache, and say how much") {
  LLM_SKIP_WITHOUT_DATA("chat-cache");
  std::string message = "count";
  for (int i = 0; i < 60; ++i) message += " word";
  message += "\n/stats\n";
  const LlmResult r =
      chat(thinking_model("chat-cache"), message + message + message, {"--think", "off"});
  CHECK(r.exit_code == 0);
  const std::vector<int64_t> cached = numbers_before(r.err, " of them cached");
  REQUIRE_MESSAGE(cached.size() == 2, r.err);  // in the second and third turn
  const std::vector<int64_t> ends = numbers_before(r.err, " of 40960 tokens");
  REQUIRE(ends.size() == 3);
  // Up to the answer before, whose empty think block is gone from the prompt: less than two blocks.
  CHECK(cached[0] > ends[0] - 32);
  CHECK(cached[1] > ends[1] - 32);
}

TEST_CASE("E8: where old thoughts leave the prompt, all before the last answer is reused") {
  const LlmResult r = chat("tiny", "What is the capital of France?\nAnd of Japan?\nAnd of Spain?\n",
                           {"--think", "on", "--stats"});
  CHECK(r.exit_code == 0);
  std::vector<int64_t> prompts;
  for (size_t at = 0; (at = r.err.find("prompt ", at)) != std::string::npos; ++at) {
    const size_t digits = at + 7;
    if (std::isdigit(static_cast<unsigned char>(r.err[digits])) != 0) {
      prompts.push_back(std::stoll(r.err.substr(digits)));
    }
  }
  REQUIRE_MESSAGE(prompts.size() == 3, r.err);
  const std::vector<int64_t> cached = numbers_before(r.err, " of them cached");
  REQUIRE(!cached.empty());
  // The second turn's prompt ends where its thought began: blocks of 16 up to there.
  CHECK(cached.back() == prompts[1] / 16 * 16);
}

TEST_CASE("chat: commands through a pipe, and mistakes end it") {
  LLM_SKIP_WITHOUT_DATA("chat-commands");
  const std::string model = thinking_model("chat-commands");
  const std::filesystem::path dir = fresh_test_dir("chat-commands-files");
  const std::string saved = (dir / "c.json").string();
  write_text(dir / "note.txt", "the note\n");
  const LlmResult r = chat(model,
                           "/system be brief\n//slash\n/file " + (dir / "note.txt").string() +
                               "\nread this\n/regen\n/save " + saved + "\n/help\n/exit\nnever\n",
                           {"--think", "off"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done\nDone\nDone\n");
  CHECK(contains(r.err, "/regen"));
  CHECK(saved_messages(saved) ==
        std::vector<std::string>{"system:be brief", "user:/slash", "assistant:Done",
                                 "user:read this\n\nthe note", "assistant:Done"});

  const LlmResult exists = chat(model, "hi\n/save " + saved + "\nnever\n", {"--think", "off"});
  CHECK(exists.exit_code == 1);
  CHECK(exists.out == "Done\n");
  CHECK(contains(exists.err, "line 2"));
  CHECK(contains(exists.err, "/save!"));
  CHECK(saved_messages(saved).size() == 5);
  CHECK(chat(model, "hi\n/save! " + saved + "\n", {"--think", "off"}).exit_code == 0);
  CHECK(saved_messages(saved) == std::vector<std::string>{"user:hi", "assistant:Done"});
}

TEST_CASE("chat: mistakes name what was expected") {
  LLM_SKIP_WITHOUT_DATA("chat-mistakes");
  const std::string model = thinking_model("chat-mistakes");
  const std::filesystem::path dir = fresh_test_dir("chat-mistakes-files");
  write_text(dir / "text", "not JSON");
  write_text(dir / "numbers", "[1, 2]");
  write_text(dir / "keys", R"({"messages": [], "temperature": 1})");
  const std::vector<std::pair<std::string, const char*>> mistakes = {
      {"/nope", "/help"},
      {"/hlep", "did you mean /help?"},
      {"/think maybe", "on, off or auto"},
      {"/set temp hot", "number"},
      {"/set temp -1", "number"},
      {"/set speed 1", "max-tokens"},
      {"/set temp", "value"},
      {"/set help 1", "max-tokens"},
      {"/regen", "no message"},
      {"/load " + (dir / "none").string(), "such file"},
      {"/load " + (dir / "text").string(), "line 1"},
      {"/load " + (dir / "numbers").string(), "messages[0]"},
      {"/load " + (dir / "keys").string(), "temperature"},
      {"/file " + dir.string(), "folder"},
      {"/save " + dir.string(), "folder"},
      {"/save " + (dir / "no" / "x").string(), "can't be written"},
  };
  for (const auto& mistake : mistakes) {
    const std::string& line = mistake.first;
    CAPTURE(line);
    const LlmResult r = chat(model, line + "\n");
    CHECK(r.exit_code == 1);
    CHECK(r.out.empty());
    CHECK_MESSAGE(contains(r.err, mistake.second), r.err);
  }
}

TEST_CASE("chat: settings change the next answer") {
  LLM_SKIP_WITHOUT_DATA("chat-set");
  const std::string model = endless_model("chat-set");
  const LlmResult r = chat(model,
                           "hi\n/set max-tokens 1\nhi\n/set temp 0.5\n/set seed 7\n/set top-k -1\n"
                           "/set\n",
                           {"-n", "3", "--think", "off"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "HelloDone\n\nHello\n");
  for (const char* line : {"temp 0.5\n", "top-k -1\n", "seed 7\n", "max-tokens 1\n"}) {
    CHECK_MESSAGE(contains(r.err, line), r.err);
  }
}

TEST_CASE("chat: a full context leaves out the oldest turns and says so") {
  LLM_SKIP_WITHOUT_DATA("chat-full");
  const std::string model = thinking_model("chat-full");
  std::string message = "count";
  for (int i = 0; i < 40; ++i) message += " word";
  std::string input;
  for (int i = 0; i < 5; ++i) input += message + "\n/stats\n";
  const LlmResult r = chat(model, input, {"--think", "off", "--ctx", "200"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done\nDone\nDone\nDone\nDone\n");
  CHECK_MESSAGE(contains(r.err, "no longer sees the oldest"), r.err);
  for (const int64_t used : numbers_before(r.err, " of 200 tokens of the context")) {
    CHECK(used <= 200);
  }
  const LlmResult alone = chat(model, message + "\n", {"--think", "off", "--ctx", "32"});
  CHECK(alone.exit_code == 1);
  CHECK(contains(alone.err, "32"));
  CHECK(contains(alone.err, "larger --ctx"));
}

TEST_CASE("chat: without a chat template it speaks plain ChatML, and says so") {
  LLM_SKIP_WITHOUT_DATA("chat-no-template");
  const std::string model = thinking_model("chat-no-template");
  std::filesystem::remove(std::filesystem::path(model) / "tokenizer_config.json");
  const LlmResult r = chat(model, "hi\n");
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done\n");
  CHECK(contains(r.err, "no chat template: plain ChatML"));
}

TEST_CASE("chat: input that is no text") {
  LLM_SKIP_WITHOUT_DATA("chat-bytes");
  const std::string model = thinking_model("chat-bytes");
  const std::string saved = (fresh_test_dir("chat-bytes-file") / "c.json").string();
  const LlmResult r = chat(model, std::string("a\xff\0b\r\n/save ", 12) + saved + "\n");
  CHECK(r.exit_code == 0);
  CHECK(contains(r.err, "UTF-8"));
  CHECK(saved_messages(saved)[0] == std::string("user:a\xef\xbf\xbd\0b", 11));
}

TEST_CASE("chat: greedy with thinking on is warned about") {
  LLM_SKIP_WITHOUT_DATA("chat-greedy");
  const std::string model = thinking_model("chat-greedy");
  CHECK(contains(chat(model, "", {"--greedy", "--think", "on"}).err, "greedy"));
  CHECK_FALSE(contains(chat(model, "", {"--greedy"}).err, "greedy decoding"));
  CHECK(contains(chat(model, "/think on\n", {"--greedy"}).err, "greedy decoding"));
}

TEST_CASE("loop guard: ends endless answers of run and chat, and says so") {
  LLM_SKIP_WITHOUT_DATA("loop-guard");
  const std::string model = endless_model("loop-guard");
  const Args args = {"run", "-m", model, "--think", "off", "--json", "-n", "1100", "hi"};
  const LlmResult guarded = run_llm(args);
  const JsonValue j = parse_json(guarded.out, "run --json");
  CHECK(j.find("finish_reason")->string == "length");
  CHECK(j.find("ids")->array.size() == 1024);
  CHECK(contains(guarded.err, "3 tokens"));
  CHECK(contains(guarded.err, "--no-loop-guard"));
  for (const Args& more : {Args{"--no-loop-guard"}, Args{"--ignore-eos"}}) {
    Args off = args;
    off.insert(off.end(), more.begin(), more.end());
    CHECK(parse_json(run_llm(off).out, "run --json").find("ids")->array.size() == 1100);
  }
  const LlmResult raw = run_llm({"run", "-m", model, "--raw", "--json", "-n", "1100", "Hello"});
  CHECK(parse_json(raw.out, "run --json").find("ids")->array.size() == 1100);
  const LlmResult talk = chat(model, "hi\n/stats\n", {"--think", "off", "-n", "1100"});
  CHECK(contains(talk.err, "over and over"));
  CHECK(contains(talk.err, "answer 1024 tokens, finish: length"));
}

}  // namespace
}  // namespace llm
