// In strict sessions the host can't touch device memory; this says so when it tries.
#pragma once

#include <csignal>

namespace llm::emu {

/// While it lives, a SIGSEGV is explained on stderr before it ends the process, if it concerns
/// device memory.
class HostAccessMessage {
 public:
  HostAccessMessage();
  ~HostAccessMessage();
  HostAccessMessage(const HostAccessMessage&) = delete;
  HostAccessMessage& operator=(const HostAccessMessage&) = delete;

 private:
  struct sigaction previous_ = {};
};

}  // namespace llm::emu
