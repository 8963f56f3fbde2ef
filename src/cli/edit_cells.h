// Characters as a line editor should see them: one unit, with a width that it knows.
//
// libedit moves, deletes and draws by code point, and takes each for at least one column. A letter
// with combining marks would be torn apart and drawn wrong. Such a cluster is therefore edited as
// one stand-in character of the same width, and turned back where text leaves the editor: on the
// screen and in the message. Stand-ins come from ranges that nobody types; a character of theirs
// that comes in all the same gets a stand-in itself, so that no text is ever changed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm {

/// Needs a UTF-8 locale (LC_CTYPE), whose wcwidth() decides.
class EditCells {
 public:
  /// Appends UTF-8 text (well-formed) to a line, joining marks to the character before them.
  void append(std::wstring& line, std::string_view text);

  /// The text of cells. Without `text`'s own meaning changed: text(append(x)) is x.
  std::string text(std::wstring_view line) const;

  /// As text(), but for the screen: marks without a character before them get a dotted circle.
  std::string screen(char32_t cell) const;

  /// True for a mark that joins the character before it.
  static bool is_mark(char32_t c);

 private:
  struct Pool {
    char32_t begin;
    char32_t end;
    std::vector<std::u32string> clusters;  // of begin, begin + 1, ...
  };

  Pool narrow_{0xF0000, 0xFFFFE, {}};  // private use, one column
  Pool wide_{0x2A000, 0x2A6DE, {}};    // rare ideographs, two columns

  static bool in(const Pool& pool, char32_t c) { return c >= pool.begin && c < pool.end; }
  const std::u32string* cluster_of(char32_t cell) const;
  void append_cluster(std::wstring& line, const std::u32string& cluster);

  std::unordered_map<std::string, char32_t> known_;  // UTF-8 of a cluster -> its stand-in
};

}  // namespace llm
