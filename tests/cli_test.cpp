// The command line: exit codes, refusals, where output goes.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

std::string fixture(const char* name) { return (shared_data() / "fixtures" / name).string(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Refused: exit code 2, nothing on stdout, and the message names `part`.
void check_refused(const Args& args, const std::string& part, const std::string& input = "") {
  const LlmResult r = run_llm(args, input);
  CAPTURE(args.back());
  CHECK(r.exit_code == 2);
  CHECK(r.out.empty());
  CHECK_MESSAGE(contains(r.err, part), r.err);
}

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_CASE("help and version go to stdout and end with 0") {
  const LlmResult help = run_llm({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  for (const char* command : {"run", "tokenize", "inspect", "bench"}) {
    CHECK(contains(help.out, command));
    const LlmResult sub = run_llm({command, "--help"});
    CHECK(sub.exit_code == 0);
    CHECK(contains(sub.out, "--"));
  }
  const LlmResult version = run_llm({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(contains(version.out, "compiler"));
  CHECK(contains(version.out, "generic"));
}

TEST_CASE("an unusable command line ends with 2 and a hint") {
  check_refused({}, "--help");
  check_refused({"dance"}, "dance");
  check_refused({"run", "--no-such-flag", "x"}, "--no-such-flag");
  check_refused({"run", "two", "prompts"}, "prompts");
  check_refused({"run", "--ctx"}, "--ctx needs a value");
  check_refused({"run", "-n", "1", "-n", "2", "x"}, "--max-tokens is given twice");
  check_refused({"run", "x", "--no-such", "value"}, "unknown option --no-such");
  check_refused({"run", "-q", "-v", "x"}, "verbose");
}

TEST_CASE("flags and values that are not built yet are unknown") {
  check_refused({"run", "--head-dtype", "int8", "x"}, "--head-dtype");
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1024", ""}) {
    check_refused({"run", "--device", device, "x"}, "expected auto, cpu, cuda, cuda:N or shape");
  }
  check_refused({"run", "--device", "cuda:1023", "x"}, "--device cuda");  // no machine has so many
  check_refused({"run", "--kv-dtype", "fp4", "x"}, "--kv-dtype fp4");
  check_refused({"run", "--act", "int8", "x"}, "--act int8");
  check_refused({"bench", "--batch", "0"}, "--batch");
  check_refused({"bench", "--format", "csv"}, "--format csv");
  check_refused({"run", "--config", "qwen3-0.6b", "--random-weights=w4g128", "x"}, "w4g128");
}

TEST_CASE("numbers are whole decimal numbers in their range") {
  for (const char* text : {"nan", "inf", "", "-1", "0.5x", "0x1", "1e400"}) {
    check_refused({"run", "--temp", text, "x"}, "--temp");
  }
  for (const char* text : {"0", "1.5", "nan", "-0.5"}) {
    check_refused({"run", "--top-p", text, "x"}, "--top-p");
  }
  for (const char* text : {"", "1.5", "0x10", "-2", "99999999999999999999"}) {
    check_refused({"run", "--top-k", text, "x"}, "--top-k");
  }
  for (const char* text : {"0", "-5", "1e3", "", "4294967296"}) {
    check_refused({"run", "--ctx", text, "x"}, "--ctx");
  }
  check_refused({"run", "--block-size", "20", "x"}, "--block-size 20: expected a multiple of 16");
  // 4 guesses and the token itself, and the least of a prompt.
  check_refused({"run", "--max-num-batched-tokens", "20", "--draft", "ngram", "--spec-k", "4", "x"},
                "needs at least 21");
  for (const char* text : {"", "0", "1,", "1,,2", "1,x", "5000"}) {
    check_refused({"bench", "--batch", text}, "--batch");
  }
  check_refused({"run", "--seed", "-1", "x"}, "--seed");
  check_refused({"run", "--threads", "0", "x"}, "--threads");
  check_refused({"run", "--repetition-penalty", "0", "x"}, "--repetition-penalty");
  check_refused({"run", "--min-p", "1.1", "x"}, "--min-p");
}

TEST_CASE("numbers: the message names the limits that hold") {
  check_refused({"run", "--temp", "inf", "x"}, "from 0 to 1000000");
  check_refused({"run", "--frequency-penalty", "1e7", "x"}, "from -1000000 to 1000000");
  check_refused({"run", "--top-p", "1e-300", "x"}, "--top-p \"1e-300\"");
}

TEST_CASE("an empty value is refused by name, not ignored") {
  for (const char* flag : {"--model", "--config", "--tokenizer", "--logits-out", "--file",
                           "--messages", "--chat-template"}) {
    check_refused({"run", flag, "", "x"}, std::string(flag) + " \"\"");
  }
  check_refused({"run", "--config", "qwen3-0.6b", "--random-weights=", "x"}, "--random-weights=");
  check_refused({"tokenize", "--jsonl", ""}, "--jsonl \"\"");
}

TEST_CASE("a dash where a file is expected is refused") {
  LLM_SKIP_WITHOUT_DATA("dash-for-file");
  const Args model = {"run", "-m", fixture("qwen3-bf16-tied")};
  check_refused(with(model, {"-f", "-"}), "-f -");
  check_refused(with(model, {"--messages", "-"}), "--messages -");
}

TEST_CASE("paths that the system can't follow are refused") {
  LLM_SKIP_WITHOUT_DATA("unusable-paths");
  const std::filesystem::path loop = fresh_test_dir("cli-loop") / "loop";
  std::filesystem::create_symlink(loop, loop);
  const std::string endless(5000, 'x');
  for (const std::string& path : {loop.string(), endless}) {
    check_refused({"run", "-m", fixture("qwen3-bf16-tied"), "--raw", "-f", path}, "-f");
    check_refused({"run", "-m", path, "x"}, path.substr(0, 40));
    check_refused({"tokenize", "-m", fixture("qwen3-bf16-tied"), "--jsonl", path}, "--jsonl");
    check_refused({"run", "--config", path, "--random-weights", "x"}, path.substr(0, 40));
  }
}

TEST_CASE("messages show control characters instead of sending them") {
  const LlmResult r = run_llm({"frob\x1b[31m\xc2\x9b\x80\r\xe4\xb8\xad"});
  CHECK(r.exit_code == 2);
  CHECK_MESSAGE(contains(r.err, "frob\\x1b[31m\\x9b\\x80\\x0d\xe4\xb8\xad\n"), r.err);
}

TEST_CASE("--version survives a bad LLM_CPU_ISA") {
  LlmCall call;
  call.args = {"--version"};
  call.environment = {"LLM_CPU_ISA=frob"};
  const LlmResult r = run_llm(call);
  CHECK(r.exit_code == 0);
  CHECK(contains(r.out, "in use: none (LLM_CPU_ISA=frob"));
}

TEST_CASE("options that contradict each other are refused") {
  check_refused({"run", "--raw", "--system", "s", "x"}, "--system");
  check_refused({"run", "--token-ids", "1", "x"}, "--token-ids");
  check_refused({"run", "--token-ids", "1 b"}, "\"b\"");
  check_refused({"run", "--token-ids", " "}, "no ids");
  check_refused({"run", "--keep-newline", "--strip-newline", "x"}, "--strip-newline");
  check_refused({"run", "--stop", "", "x"}, "--stop");
}

TEST_CASE("without a model the built-in one answers, and a line says so") {
  LlmCall call;
  call.args = {"run", "--think", "off", "中国的首都是哪里？"};
  call.environment = {"LLM_MODEL="};
  const LlmResult r = run_llm(call);
  CHECK(r.exit_code == 0);
  CHECK(contains(r.out, "北京"));
  CHECK(contains(r.err, "built-in model tiny"));
  CHECK(contains(r.err, "-m"));
  CHECK(contains(r.err, "$LLM_MODEL"));
  call.args.insert(call.args.begin() + 1, "-q");
  const LlmResult quiet = run_llm(call);
  CHECK(quiet.out == r.out);
  CHECK(quiet.err.empty());
  call.environment = {"LLM_MODEL=tiny"};
  CHECK(run_llm(call).out == r.out);
}

TEST_CASE("a model that isn't there is refused by its name") {
  check_refused({"run", "-m", "/no/such/folder", "hi"}, "/no/such/folder");
  check_refused({"run", "--config", "qwen3-0.6b", "hi"}, "--random-weights");
  check_refused({"run", "--config", "no-such", "--random-weights", "hi"}, "qwen3-0.6b");
}

TEST_CASE("$LLM_MODEL names the model") {
  LLM_SKIP_WITHOUT_DATA("llm-model-variable");
  LlmCall call;
  call.args = {"run", "--raw", "hi", "-n", "1"};
  call.environment = {"LLM_MODEL=" + fixture("qwen3-bf16-tied")};
  CHECK(run_llm(call).exit_code == 0);
  call.environment = {"LLM_MODEL=/no/such/folder"};
  CHECK(run_llm(call).exit_code == 2);
  call.args.insert(call.args.begin(), {"-m", fixture("qwen3-bf16-tied")});
  CHECK(run_llm(call).exit_code == 0);
}

TEST_CASE("an empty prompt is refused") {
  LLM_SKIP_WITHOUT_DATA("empty-prompt");
  const Args model = {"run", "-m", fixture("qwen3-bf16-tied")};
  check_refused(with(model, {"--raw", ""}), "empty");
  check_refused(with(model, {""}), "empty");
  check_refused(with(model, {"--raw"}), "empty");
  check_refused(with(model, {"-f", "/no/such/file"}), "/no/such/file");
  check_refused(with(model, {"-f", "/"}), "folder");
}

TEST_CASE("a prompt longer than the context: both numbers, and nothing on stdout") {
  LLM_SKIP_WITHOUT_DATA("context-too-small");
  std::string ids;
  for (int i = 0; i < 20; ++i) ids += std::to_string(i) + " ";
  const Args args = {"run", "-m", fixture("qwen3-bf16-tied"), "--ctx", "16", "--token-ids", ids};
  check_refused(args, "20 tokens");
  check_refused(args, "16");
  check_refused(args, "--ctx");
}

TEST_CASE("a context beyond the memory: GiB and the flags that help") {
  LLM_SKIP_WITHOUT_DATA("context-too-large");
  const LlmResult r = run_llm({"run", "--config", "qwen3-0.6b", "--random-weights", "--ctx",
                               "1000000000", "--token-ids", "1"});
  CHECK(r.exit_code == 2);
  for (const char* part : {"GiB", "--ctx", "--kv-dtype"}) CHECK(contains(r.err, part));
}

TEST_CASE("ids outside of the vocabulary are refused by name") {
  LLM_SKIP_WITHOUT_DATA("ids-out-of-range");
  const Args model = {"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids"};
  check_refused(with(model, {"1 320"}), "320");
  check_refused(with(model, {"-1"}), "-1");
  check_refused(with(model, {"99999999999"}), "99999999999");
}

TEST_CASE("a closed stdout ends with 141, silently; a full disk with 1 and a message") {
  LLM_SKIP_WITHOUT_DATA("closed-stdout");
  LlmCall call;
  call.args = {"run", "-q",           "-m",      fixture("qwen3-bf16-tied"), "--raw", "hello", "-n",
               "50",  "--ignore-eos", "--greedy"};
  call.out = LlmCall::Stdout::kClosedPipe;
  const LlmResult closed = run_llm(call);
  CHECK(closed.exit_code == 141);
  CHECK(closed.err.empty());
  call.out = LlmCall::Stdout::kFull;
  const LlmResult full = run_llm(call);
  CHECK(full.exit_code == 1);
  CHECK(contains(full.err, "stdout"));
  call.args = {"run", "--help"};
  const LlmResult help = run_llm(call);
  CHECK(help.exit_code == 1);
  CHECK(contains(help.err, "No space left"));
}

TEST_CASE("no escape codes where nobody reads a terminal") {
  LLM_SKIP_WITHOUT_DATA("no-escape-codes");
  const LlmResult r = run_llm({"run", "-m", fixture("qwen3-bf16-tied"), "--raw", "hello", "-n",
                               "20", "--greedy", "--stats"});
  CHECK(r.exit_code == 0);
  CHECK_FALSE(contains(r.out, "\x1b"));
  CHECK_FALSE(contains(r.err, "\x1b"));
}

}  // namespace
}  // namespace llm
