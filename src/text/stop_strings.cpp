#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace llm {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  std::stable_sort(stops_.begin(), stops_.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  return scan(false);
}

std::string StopStrings::finish() {
  if (stopped_) return "";
  std::string out = scan(true);
  if (!stopped_) out += held_;
  held_.clear();
  return out;
}

/// Gives out what lies before the first place where a stop string begins or may begin.
std::string StopStrings::scan(bool at_end) {
  for (size_t begin = 0; begin < held_.size(); ++begin) {
    const std::string_view rest = std::string_view(held_).substr(begin);
    for (const std::string& stop : stops_) {  // longest first
      const bool complete = rest.starts_with(stop);
      const bool possible = !at_end && std::string_view(stop).starts_with(rest);
      if (complete) {
        stopped_ = true;
        std::string out = held_.substr(0, begin);
        held_.clear();
        return out;
      }
      if (possible) {
        std::string out = held_.substr(0, begin);
        held_.erase(0, begin);
        return out;
      }
    }
  }
  return at_end ? "" : std::exchange(held_, "");
}

}  // namespace llm
