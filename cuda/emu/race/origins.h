// Places in code as 32-bit numbers, and back as "file:line".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emu/thread.h"

namespace llm::emu {

class Origins {
 public:
  Origins();

  /// Of an instruction of this program.
  uint32_t of(const void* return_address) const;
  uint32_t of(Place place);

  /// Replaces each "{origin N}" of the texts by "file:line": of an instruction, in the innermost
  /// function that isn't the emulator's. Starts addr2line once for all that are new.
  void name_in(std::vector<std::string>& texts);
  static std::string mark(uint32_t origin);

 private:
  void look_up(const std::vector<uint32_t>& origins);

  static constexpr uint32_t kIsPlace = uint32_t{1} << 31;

  uintptr_t program_ = 0;  // where this program is loaded
  std::vector<Place> places_;
  std::map<std::pair<const char*, int>, uint32_t> indices_;
  std::map<uint32_t, std::string> names_;
};

}  // namespace llm::emu
