#include "cli/edit_cells.h"

#include <cwchar>

#include "text/utf8.h"

namespace llm {
namespace {

constexpr char32_t kFirstMark = 0x300;
constexpr std::string_view kDottedCircle = "\xe2\x97\x8c";  // U+25CC

int width_of(char32_t c) { return ::wcwidth(static_cast<wchar_t>(c)); }

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

std::string utf8_of(const std::u32string& cluster) {
  std::string text;
  for (const char32_t c : cluster) append_utf8(text, c);
  return text;
}

/// Columns of a cluster: of its first character; those that the C library doesn't know yet are
/// mostly new emoji.
int cluster_width(const std::u32string& cluster) {
  const int width = width_of(cluster[0]);
  if (width < 0) return cluster[0] >= 0x1F000 ? 2 : 1;
  return width == 2 ? 2 : 1;
}

}  // namespace

bool EditCells::is_mark(char32_t c) { return c >= kFirstMark && width_of(c) == 0; }

const std::u32string* EditCells::cluster_of(char32_t cell) const {
  for (const Pool* pool : {&narrow_, &wide_}) {
    if (in(*pool, cell) && cell - pool->begin < pool->clusters.size()) {
      return &pool->clusters[cell - pool->begin];
    }
  }
  return nullptr;
}

void EditCells::append_cluster(std::wstring& line, const std::u32string& cluster) {
  const char32_t first = cluster[0];
  const bool plain = cluster.size() == 1 && !in(narrow_, first) && !in(wide_, first) &&
                     (is_control(first) || width_of(first) > 0);
  if (plain) {
    line += static_cast<wchar_t>(first);
    return;
  }
  const std::string key = utf8_of(cluster);
  if (const auto it = known_.find(key); it != known_.end()) {
    line += static_cast<wchar_t>(it->second);
    return;
  }
  Pool& pool = cluster_width(cluster) == 2 ? wide_ : narrow_;
  if (pool.clusters.size() == pool.end - pool.begin) {  // more than anyone types: drawn wrong
    for (const char32_t c : cluster) line += static_cast<wchar_t>(c);
    return;
  }
  const auto cell = static_cast<char32_t>(pool.begin + pool.clusters.size());
  pool.clusters.push_back(cluster);
  known_.emplace(key, cell);
  line += static_cast<wchar_t>(cell);
}

void EditCells::append(std::wstring& line, std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    i += c.length;
    std::u32string cluster;
    if (is_mark(c.value) && !line.empty() && !is_control(static_cast<char32_t>(line.back()))) {
      const auto before = static_cast<char32_t>(line.back());
      const std::u32string* known = cluster_of(before);
      cluster = known != nullptr ? *known : std::u32string(1, before);
      line.pop_back();
    }
    cluster += c.value;
    append_cluster(line, cluster);
  }
}

std::string EditCells::text(std::wstring_view line) const {
  std::string out;
  for (const wchar_t wide : line) {
    const auto c = static_cast<char32_t>(wide);
    if (const std::u32string* cluster = cluster_of(c)) {
      out += utf8_of(*cluster);
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

std::string EditCells::screen(char32_t cell) const {
  const wchar_t wide = static_cast<wchar_t>(cell);
  const std::string shown = text({&wide, 1});
  const std::u32string* cluster = cluster_of(cell);
  const bool bare = cluster != nullptr && is_mark((*cluster)[0]);
  return bare ? std::string(kDottedCircle) + shown : shown;
}

}  // namespace llm
