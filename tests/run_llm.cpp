#include "run_llm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace llm {

void exec_llm(const std::vector<std::string>& args, const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  const char* binary = std::getenv("LLM_BINARY");
  if (binary == nullptr) binary = "build/llm";
  std::vector<char*> argv = {const_cast<char*>("llm")};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv(binary, argv.data());
  ::_exit(127);
}

namespace {

constexpr auto kLongest = std::chrono::minutes(2);

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

[[noreturn]] void become_child(const LlmCall& call, const Pipe& in, const Pipe& out,
                               const Pipe& err) {
  ::dup2(in.read, STDIN_FILENO);
  const bool full = call.out == LlmCall::Stdout::kFull;
  ::dup2(full ? ::open("/dev/full", O_WRONLY) : out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  exec_llm(call.args, call.environment);
}

/// One read of what is there; false at the end of the stream.
bool take(int fd, std::string& into) {
  std::array<char, 65536> block;
  const ssize_t got = ::read(fd, block.data(), block.size());
  if (got > 0) into.append(block.data(), static_cast<size_t>(got));
  return got > 0;
}

/// Reads both streams to their ends.
void collect(pid_t child, const LlmCall& call, Pipe& out, Pipe& err, LlmResult& result) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  bool interrupted = false;
  while (out.read >= 0 || err.read >= 0) {
    std::array<pollfd, 2> fds = {pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), 1000);
    if (fds[0].revents != 0 && !take(out.read, result.out)) out.close_read();
    if (fds[1].revents != 0 && !take(err.read, result.err)) err.close_read();
    if (call.interrupt_after_output && !interrupted && !result.out.empty()) {
      ::kill(child, SIGINT);
      interrupted = true;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      throw std::runtime_error("llm runs for more than two minutes");
    }
  }
}

}  // namespace

LlmResult run_llm(const LlmCall& call) {
  Pipe in, out, err;
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) become_child(call, in, out, err);
  in.close_read();
  out.close_write();
  err.close_write();
  if (call.out == LlmCall::Stdout::kClosedPipe) out.close_read();

  std::thread feeder([&] {
    std::signal(SIGPIPE, SIG_IGN);
    std::string_view rest = call.input;
    while (!rest.empty()) {
      const ssize_t written = ::write(in.write, rest.data(), rest.size());
      if (written <= 0) break;
      rest.remove_prefix(static_cast<size_t>(written));
    }
    in.close_write();
  });
  LlmResult result;
  collect(child, call, out, err, result);
  feeder.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_code == 127) throw std::runtime_error("llm can't be started: run make first");
  return result;
}

}  // namespace llm
