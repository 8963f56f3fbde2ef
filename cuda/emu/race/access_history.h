// For each byte of memory that kernels use, who touched it last: the shadow of the race detector.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace llm::emu {

/// One access to some of a cell's bytes.
struct Access {
  uint32_t block = 0;  // from 1, ascending over all launches; 0: none
  uint16_t thread : 10 = 0;
  uint16_t bytes : 2 = 0;    // which bytes of the cell
  uint16_t written : 2 = 0;  // of a write: bytes that this block wrote so far
  uint16_t is_atomic : 1 = 0;
  uint16_t epoch = 0;   // barriers of the block before it
  uint32_t clock = 0;   // of the thread
  uint32_t origin = 0;  // where in the code (origins.h)

  bool exists() const { return block != 0; }
};

/// Two bytes of memory. One writer and two readers are remembered: a race of a third reader is
/// missed unless it comes first in another schedule.
struct Cell {
  Access writer;
  Access readers[2];
};

class AccessHistory {
 public:
  static constexpr uintptr_t kCellBytes = 2;

  /// The cell that holds the byte at this address.
  Cell& cell(uintptr_t address) {
    const uintptr_t index = address / kCellBytes;
    if (index / kPageCells != last_index_) {
      last_index_ = index / kPageCells;
      std::unique_ptr<Cell[]>& page = pages_[last_index_];
      if (page == nullptr) page = std::make_unique<Cell[]>(kPageCells);
      last_page_ = page.get();
    }
    return last_page_[index % kPageCells];
  }

 private:
  static constexpr uintptr_t kPageCells = 2048;

  std::unordered_map<uintptr_t, std::unique_ptr<Cell[]>> pages_;
  uintptr_t last_index_ = ~uintptr_t{0};
  Cell* last_page_ = nullptr;
};

}  // namespace llm::emu
