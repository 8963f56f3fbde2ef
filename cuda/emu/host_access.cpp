#include "cuda/emu/host_access.h"

#include <unistd.h>

#include <string>

#include "cuda/emu/device.h"

namespace llm::emu {
namespace {

/// The process is about to end, so this may allocate: at worst it ends without the message.
void explain(int, siginfo_t* info, void*) {
  const DeviceMemory& memory = device().memory();
  if (!memory.is_device_address(info->si_addr)) return;
  const std::string message =
      "emulator: outside kernels and copies, the host touched device memory: " +
      memory.describe(info->si_addr) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
}

}  // namespace

HostAccessMessage::HostAccessMessage() {
  struct sigaction action = {};
  action.sa_sigaction = explain;
  // Reset: the access happens again when the handler returns, and then ends the process.
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  sigaction(SIGSEGV, &action, &previous_);
}

HostAccessMessage::~HostAccessMessage() { sigaction(SIGSEGV, &previous_, nullptr); }

}  // namespace llm::emu
