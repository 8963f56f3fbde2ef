#include "base/error.h"

namespace llm {

void bug(const char* condition, const std::string& detail, const char* file, int line) {
  throw std::logic_error(fmt::format("internal error at {}:{}: {} does not hold{}{}", file, line,
                                     condition, detail.empty() ? "" : ": ", detail));
}

}  // namespace llm
