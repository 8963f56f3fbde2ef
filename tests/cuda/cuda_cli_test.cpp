// The program on an emulated GPU, as a user runs it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

/// $LLM_EMU_BINARY, or build/llm_emu: the program linked with the emulator.
LlmResult run_emulated(const std::vector<std::string>& args, const std::string& input = "") {
  const char* binary = std::getenv("LLM_EMU_BINARY");
  LlmCall call;
  call.args = args;
  call.input = input;
  call.environment = {std::string("LLM_BINARY=") + (binary ? binary : "build/llm_emu")};
  return run_llm(call);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cuda: the program answers on a GPU as on the CPU, and says where it ran") {
  const std::vector<std::string> question = {"run", "--act", "bf16",   "--think",           "off",
                                             "-n",  "12",    "--json", "中国的首都是哪里？"};
  std::vector<std::string> on_cpu = question;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  const LlmResult gpu = run_emulated(question);  // auto finds the emulated one
  const LlmResult cpu = run_emulated(on_cpu);
  REQUIRE(gpu.exit_code == 0);
  REQUIRE(cpu.exit_code == 0);
  CHECK(contains(gpu.err, "cuda:0 (Emulated GPU, sm_90): 7.44 MiB of weights"));
  const JsonValue a = parse_json(gpu.out, "gpu");
  const JsonValue b = parse_json(cpu.out, "cpu");
  CHECK(contains(a.find("content")->string, "北京"));
  CHECK(a.find("content")->string == b.find("content")->string);
  CHECK(a.find("run")->find("device")->string == "cuda");
  CHECK(a.find("run")->find("isa")->string == "sm_90");
  CHECK(a.find("run")->find("act")->string == "bf16");
  CHECK(b.find("run")->find("device")->string == "cpu");
}

TEST_CASE("cuda: requests in a batch, with guesses and an 8-bit cache") {
  const std::string lines =
      "{\"prompt\": \"What is 2+3?\", \"think\": \"off\", \"max_tokens\": 10}\n"
      "{\"prompt\": \"Spell cat.\", \"think\": \"off\", \"max_tokens\": 10}\n";
  const auto contents = [&](const std::string& device) {
    const LlmResult r = run_emulated({"run", "--jsonl", "-", "-q", "--device", device, "--act",
                                      "bf16", "--draft", "tiny-draft", "--kv-dtype", "int8"},
                                     lines);
    CHECK(r.exit_code == 0);
    std::string all;
    for (size_t at = 0; at < r.out.size();) {
      const size_t end = r.out.find('\n', at);
      all += parse_json(r.out.substr(at, end - at), "line").find("content")->string + "\n";
      at = end + 1;
    }
    return all;
  };
  const std::string on_gpu = contents("cuda");
  CHECK(contains(on_gpu, "5"));
  CHECK(on_gpu == contents("cpu"));
}

TEST_CASE("cuda: devices are listed, and a wrong one is refused") {
  const LlmResult listed = run_emulated({"inspect", "--devices"});
  CHECK(listed.exit_code == 0);
  CHECK(contains(listed.out, "cuda:0    Emulated GPU, sm_90, 4 multiprocessors"));
  CHECK(contains(listed.out, "cuBLASLt  1"));
  const LlmResult json = run_emulated({"inspect", "--devices", "--json"});
  const JsonValue devices = parse_json(json.out, "devices");
  CHECK(devices.find("cuda")->find("devices")->array.size() == 1);
  const LlmResult other = run_emulated({"run", "--device", "cuda:7", "x"});
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "there is only cuda:0"));
  const LlmResult f32 = run_emulated({"run", "--device", "cuda", "--act", "f32", "x"});
  CHECK(f32.exit_code == 2);
  CHECK(contains(f32.err, "leave out --act f32"));
}

TEST_CASE("cuda: the measuring commands work") {
  const LlmResult bench =
      run_emulated({"bench", "--device", "cuda", "--prompt-len", "20", "--gen-len", "3", "--batch",
                    "2", "--reps", "1", "--warmup", "0", "--format", "json"});
  CHECK_MESSAGE(bench.exit_code == 0, bench.err);
  CHECK(contains(bench.out, "\"cuda\""));
  const LlmResult eval =
      run_emulated({"eval", "--device", "cuda", "--text", "-", "--ctx", "16", "--json"},
                   "The cat sat on the mat. One two three four.");
  CHECK_MESSAGE(eval.exit_code == 0, eval.err);
  const LlmResult doctor = run_emulated({"doctor"});
  CHECK(contains(doctor.out, "Emulated GPU"));
}

namespace {

/// scripts/gpu_check.sh as a rehearsal, called from another folder.
struct GpuCheck {
  std::filesystem::path folder = std::filesystem::absolute(fresh_test_dir("gpu_check"));
  std::string environment;
  std::string output;
  int exit_code = -1;

  GpuCheck() {
    namespace fs = std::filesystem;
    const char* given = std::getenv("LLM_EMU_BINARY");
    const fs::path binary = fs::absolute(given ? given : "build/llm_emu");
    set("LLM", binary.string());
    set("LLM_GPU_TESTS", fs::read_symlink("/proc/self/exe").string());
    set("LLM_GPU_MEASURE", (binary.parent_path() / "llm_measure_emu").string());
    // Of each file of tests the quickest; of those that have none, none.
    set("TEST_CASES",
        "cuda rows: embed,cuda small linear: nothing*,cuda gemm: nothing*,padding rows of*,"
        "cuda cublaslt*,cuda sample: no rows*");
    for (const char* small : {"SMALL=1", "TOKENS=4", "REQUESTS=2", "REPEATS=2", "GPU=h200"}) {
      environment += std::string(" ") + small;
    }
  }

  void set(const std::string& name, const std::string& value) {
    environment += " " + name + "='" + value + "'";
  }

  void run(const std::string& arguments) {
    const std::string script = std::filesystem::absolute("scripts/gpu_check.sh").string();
    const std::filesystem::path log = folder / "output.txt";
    const std::string command = "cd " + folder.string() + " && env" + environment + " " + script +
                                " " + arguments + " >" + log.string() + " 2>&1";
    exit_code = WEXITSTATUS(std::system(command.c_str()));
    output = file_text(log);
  }

  std::string file(const std::string& name) const { return file_text(folder / "out" / name); }
};

/// What is to run on a GPU: all but the tests of the emulator, of errors that it makes up, and
/// these.
std::vector<std::string> gpu_test_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/cuda")) {
    const std::string name = entry.path().stem().string();
    const bool other = name.starts_with("emu_") || name.starts_with("proof_") ||
                       name == "cuda_errors_test" || name == "cuda_cli_test";
    if (name.ends_with("_test") && entry.path().extension() == ".cpp" && !other) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("cuda: gpu_check.sh goes through all its steps") {
  GpuCheck check;
  check.run("out");
  CHECK_MESSAGE(check.exit_code == 0, check.output);
  const std::string table = check.file("checks.csv");
  for (const std::string& step : gpu_test_files()) {
    CAPTURE(step);
    const bool is_slow =
        step == "cuda_model_test" || step == "cuda_engine_test" || step == "cuda_loop_test";
    CHECK(contains(table, "\n" + step + (is_slow ? ",skipped," : ",passed,")));
  }
  for (const std::string step :
       {"device", "tokens", "batches", "repeats", "ceilings", "step", "gemv", "attention", "many",
        "load", "bench", "bench_no_graphs", "bench_no_overlap", "bench_prefetch", "first_token"}) {
    CAPTURE(step);
    CHECK(contains(table, "\n" + step + ",passed,"));
  }
  CHECK(contains(table, "\nmemcheck,"));
  // Each table has its last row, so that no part of a section is missing.
  const std::string report = check.file("report.txt");
  for (const std::string part :
       {"\ncopy, GB/s", "\nread to registers", "\nread to shared", "\nblocks=4 overlap",
        "\nqwen3-8b                  40", "\nqwen3-0.6b head", "\nheads=4/1 context=40 batch=3",
        "\nqwen3-8b step", "\nqwen3-8b gate_up", "\nqwen3-8b prompt attention", "top-p 0.95",
        "\npinned to device", "\nrecord a step", "\nprefetch ", "\nprocess start"}) {
    CAPTURE(part);
    CHECK(contains(report, part));
  }
  CHECK(contains(check.output, report));
  CHECK(check.output.size() < 12 * 1024);
  // Of a whole model, as `llm bench --estimate` has it.
  CHECK(contains(check.file("predictions.csv"), "qwen3-8b,40,1,3924.0,3155.0,4300,2.2"));
}

TEST_CASE("cuda: gpu_check.sh notices failures, and goes on") {
  GpuCheck check;
  check.set("LLM_GPU_MEASURE", "/bin/false");
  check.run("out ceilings device");
  CHECK(check.exit_code == 1);
  CHECK(contains(check.file("checks.csv"), "\nceilings,FAILED,"));
  CHECK(contains(check.file("checks.csv"), "\ndevice,passed,"));
  CHECK(contains(check.output, "gpu_check: FAILED (1 of 3 steps failed"));
}

TEST_CASE("cuda: gpu_check.sh refuses what can't be done") {
  GpuCheck check;
  check.run("--help");
  CHECK(check.exit_code == 0);
  CHECK(contains(check.output, "usage: scripts/gpu_check.sh OUT"));
  CHECK(contains(check.output, "gemv attention many"));
  check.run("");
  CHECK(check.exit_code == 2);
  CHECK(contains(check.output, "usage: scripts/gpu_check.sh OUT"));
  check.run("out no_such_test");
  CHECK(check.exit_code == 2);
  CHECK(contains(check.output, "no step \"no_such_test\": there are device rows_test"));
  const std::filesystem::path blind = check.folder / "blind";
  std::ofstream(blind) << "#!/bin/sh\necho 'cuda      none: no driver'\n";
  std::filesystem::permissions(blind, std::filesystem::perms::owner_all);
  check.set("LLM", blind.string());
  check.run("out");
  CHECK(check.exit_code == 1);
  CHECK(contains(check.output, "gpu_check: there is no GPU that"));
  CHECK(contains(check.output, "none: no driver"));
  CHECK(!std::filesystem::exists(check.folder / "out"));
}

}  // namespace llm
