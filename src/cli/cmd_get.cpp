// llm get: downloads a model with scripts/download_model.sh, which is part of the program.
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor_io.h"
#include "base/embedded.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "io/hub_cache.h"
#include "io/json.h"
#include "io/model_list.h"
#include "model/model_config.h"

namespace llm {
namespace {

struct GetOptions {
  std::string model;
  std::optional<int64_t> jobs, retries, retry_delay;
  bool dry_run = false;
  bool force = false;
};

/// The hub id to download. Refuses (exit code 2) what is built in, can't be run, or isn't known.
std::string id_to_get(const GetOptions& options) {
  const std::string& name = options.model;
  const ListedModel* listed = find_listed_model(name);
  if (listed == nullptr && is_hub_id(name)) return name;
  if (listed == nullptr) {
    const std::optional<std::string> similar = similar_alias(name);
    refuse("no model \"{}\": neither a name that `llm models` lists nor a hub id Owner/Name{}",
           printable(name), similar ? fmt::format("; did you mean {}?", *similar) : "");
  }
  if (listed->hub_id.empty()) refuse("{} is built in: there is nothing to download", name);
  if (!can_load(listed->model_type, listed->quant_method) && !options.force && !options.dry_run) {
    refuse("{} can't be run yet ({}{}); --force downloads it all the same", name,
           listed->model_type,
           listed->quant_method.empty() ? "" : ", quant_method " + listed->quant_method);
  }
  return listed->hub_id;
}

/// A file in memory that a program we become can open as /proc/self/fd/N.
int memory_file(std::string_view bytes) {
  const int fd = ::memfd_create("download_model.sh", 0);
  if (fd < 0) fail("can't make a file in memory: {}", std::strerror(errno));
  if (const int error = write_all(fd, bytes)) {
    fail("can't fill a file in memory: {}", std::strerror(error));
  }
  return fd;
}

/// Becomes bash with the script, so that its output, signals and exit code are ours.
[[noreturn]] void become_script(const std::vector<std::string>& args) {
  const int fd = memory_file(embedded_file("scripts/download_model.sh").value());
  std::vector<std::string> words = {"bash", fmt::format("/proc/self/fd/{}", fd)};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  flush_stdout();
  std::signal(SIGPIPE, SIG_DFL);  // being ignored would be inherited
  ::execvp("bash", argv.data());
  fail("can't start bash, which downloads need: {}", std::strerror(errno));
}

ExitCode get_model(const GetOptions& options) {
  std::vector<std::string> args;
  if (options.dry_run) args.push_back("--dry-run");
  const auto pass = [&args](const char* flag, std::optional<int64_t> value) {
    if (value) args.insert(args.end(), {flag, std::to_string(*value)});
  };
  pass("--jobs", options.jobs);
  pass("--retries", options.retries);
  pass("--retry-delay", options.retry_delay);
  args.push_back(id_to_get(options));
  become_script(args);
}

}  // namespace

Action add_get(CLI::App& app) {
  auto options = std::make_shared<GetOptions>();
  refuse_empty(
      app.add_option("MODEL", options->model, "Name that `llm models` lists, or hub id Owner/Name"))
      ->required()
      ->type_name("MODEL");
  app.add_flag("--dry-run", options->dry_run, "List the files, their bytes and what is missing");
  add_integer(app, "--jobs", options->jobs, 1, 64, "Files at once (default: 4)");
  add_integer(app, "--retries", options->retries, 0, 1000,
              "Tries in a row without progress before giving up (default: 5)");
  add_integer(app, "--retry-delay", options->retry_delay, 0, 300,
              "Seconds before the second try, doubled for each further one (default: 1)");
  app.add_flag("--force", options->force, "Also a model that this version can't run");
  app.footer("llm get qwen3-0.6b");
  return [options] { return get_model(*options); };
}

}  // namespace llm
