#include "cuda/emu/race/origins.h"

#include <fmt/format.h>
#include <link.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string_view>

namespace llm::emu {
namespace {

constexpr std::string_view kMark = "{origin ";

/// Inline functions of the emulator and of the CUDA headers.
bool is_emulator(const std::string& frame) {
  return frame.find("cuda/emu/") != std::string::npos ||
         frame.find("/include/") != std::string::npos;
}

int find_program(dl_phdr_info* info, size_t, void* program) {
  *static_cast<uintptr_t*>(program) = info->dlpi_addr;
  return 1;  // the first is the program itself
}

std::string output_of(const std::string& command) {
  std::string out;
  if (std::FILE* const pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    char buffer[512];
    while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) out += buffer;
    pclose(pipe);
  }
  return out;
}

}  // namespace

Origins::Origins() { dl_iterate_phdr(find_program, &program_); }

uint32_t Origins::of(const void* return_address) const {
  // One less than the return address lies within the call.
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(return_address) - 1 - program_);
}

uint32_t Origins::of(Place place) {
  const auto [found, is_new] = indices_.try_emplace({place.file, place.line}, 0);
  if (is_new) {
    found->second = static_cast<uint32_t>(places_.size()) | kIsPlace;
    places_.push_back(place);
  }
  return found->second;
}

std::string Origins::mark(uint32_t origin) { return fmt::format("{}{}}}", kMark, origin); }

/// Fills names_ for these. addr2line answers each address by itself, then its frames, innermost
/// first, one a line.
void Origins::look_up(const std::vector<uint32_t>& origins) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::string command = fmt::format("addr2line -a -i -e '{}'", program);
  for (const uint32_t origin : origins) command += fmt::format(" {:#x}", origin);
  std::istringstream lines(output_of(command + " 2>/dev/null"));
  std::string* name = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0x")) {
      name = &names_[static_cast<uint32_t>(std::stoul(line, nullptr, 16))];
    } else if (name != nullptr && (name->empty() || is_emulator(*name))) {
      *name = line.substr(0, line.find(" (discriminator"));
    }
  }
}

void Origins::name_in(std::vector<std::string>& texts) {
  const auto for_marks = [&](auto fn) {
    for (std::string& text : texts) {
      for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
        const auto origin = static_cast<uint32_t>(std::stoul(text.substr(at + kMark.size())));
        fn(text, at, origin);
      }
    }
  };
  std::vector<uint32_t> unknown;
  for_marks([&](const std::string&, size_t, uint32_t origin) {
    const bool is_place = (origin & kIsPlace) != 0;
    if (!is_place && !names_.contains(origin)) unknown.push_back(origin);
  });
  if (!unknown.empty()) look_up(unknown);
  for_marks([&](std::string& text, size_t at, uint32_t origin) {
    std::string name = fmt::format("address {:#x}", origin);
    if ((origin & kIsPlace) != 0) {
      const Place& place = places_[origin & ~kIsPlace];
      name = fmt::format("{}:{}", place.file, place.line);
    } else if (!names_[origin].empty()) {
      name = names_[origin];
    }
    text.replace(at, text.find('}', at) + 1 - at, name);
  });
}

}  // namespace llm::emu
