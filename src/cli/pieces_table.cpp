#include "cli/pieces_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cwchar>
#include <utility>

#include "cli/terminal_text.h"
#include "text/general_category.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr std::string_view kStandIn = "\x1b[33m";  // yellow
constexpr std::string_view kSpecial = "\x1b[36m";  // cyan
constexpr std::string_view kOpenBox = "\u2423";
constexpr std::string_view kDottedCircle = "\u25cc";
constexpr int kMaxPieceColumn = 32;  // columns; a longer piece moves its bytes to the right
constexpr size_t kMaxBytes = 16;     // shown of one token
constexpr size_t kPartSize = 1 << 16;

CharTable invisible_characters() {
  CharSet set;
  set.add_categories(categories_named("C") | categories_named("Z"));
  set.add(0x2423, 0x2423);  // what stands for a space
  return CharTable(set);
}

CharTable marks() {
  CharSet set;
  set.add_categories(categories_named("M"));
  return CharTable(set);
}

/// The escape of an invisible character.
std::string escape_of(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      return c < 0x80 ? fmt::format("\\x{:02X}", static_cast<uint32_t>(c))
                      : fmt::format("\\u{{{:X}}}", static_cast<uint32_t>(c));
  }
}

/// Builds a visible piece of parts.
class PieceBuilder {
 public:
  explicit PieceBuilder(bool styled) : styled_(styled) {}

  void add(std::string_view character, int width) {
    piece_.text += character;
    piece_.width += width;
  }
  void add_stand_in(std::string_view text, int width) {
    if (styled_) piece_.text += kStandIn;
    add(text, width);
    if (styled_) piece_.text += kPlain;
  }
  VisiblePiece take() { return std::move(piece_); }

 private:
  bool styled_;
  VisiblePiece piece_;
};

/// Columns of a printable character; one where the C library doesn't know.
int width_of(char32_t c) {
  const int width = ::wcwidth(static_cast<wchar_t>(c));
  return width < 0 ? 1 : width;
}

std::string hexadecimal(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes.substr(0, kMaxBytes)) {
    out += fmt::format("{}{:02x}", out.empty() ? "" : " ", static_cast<unsigned char>(byte));
  }
  if (bytes.size() > kMaxBytes) out += fmt::format(" ... ({} bytes)", bytes.size());
  return out;
}

}  // namespace

VisiblePiece visible_piece(std::string_view bytes, bool styled) {
  static const CharTable kInvisible = invisible_characters();
  static const CharTable kMarks = marks();
  PieceBuilder piece(styled);
  bool may_carry_mark = false;
  while (!bytes.empty()) {
    const Utf8Part part = first_utf8_part(bytes);
    const std::string_view now = bytes.substr(0, part.length);
    bytes.remove_prefix(part.length);
    if (part.kind != Utf8Part::Kind::kCharacter) {
      for (const char byte : now) {
        piece.add_stand_in(fmt::format("\\x{:02X}", static_cast<unsigned char>(byte)), 4);
      }
      may_carry_mark = false;
      continue;
    }
    const char32_t c = code_point_at(now, 0).value;
    if (c == ' ') {
      piece.add_stand_in(kOpenBox, 1);
      may_carry_mark = false;
    } else if (c == '\\' || kInvisible.contains(c)) {
      const std::string escape = escape_of(c);
      piece.add_stand_in(escape, static_cast<int>(escape.size()));
      may_carry_mark = false;
    } else {
      if (kMarks.contains(c) && !may_carry_mark) piece.add_stand_in(kDottedCircle, 1);
      piece.add(now, width_of(c));
      may_carry_mark = true;
    }
  }
  return piece.take();
}

void write_pieces_table(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool styled,
                        const std::function<void(std::string_view)>& write) {
  constexpr std::string_view kHeading = "piece";
  int piece_column = static_cast<int>(kHeading.size());
  int32_t largest = 0;
  for (const int32_t id : ids) {
    largest = std::max(largest, id);
    const int width = visible_piece(tokenizer.bytes_of(id), false).width;
    piece_column = std::max(piece_column, std::min(width, kMaxPieceColumn));
  }
  const int id_column = static_cast<int>(std::max<size_t>(2, std::to_string(largest).size()));
  const std::string_view dim = styled ? kDim : "";
  const std::string_view plain = styled ? kPlain : "";

  std::string out = fmt::format("{}{:>{}}  {:<{}}  bytes{}\n", dim, "id", id_column, kHeading,
                                piece_column, plain);
  for (const int32_t id : ids) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    const bool special = tokenizer.is_special(id);
    VisiblePiece piece = visible_piece(bytes, styled && !special);
    if (styled && special) piece.text = fmt::format("{}{}{}", kSpecial, piece.text, kPlain);
    out += fmt::format("{:>{}}  {}{:{}}  {}{}{}\n", id, id_column, piece.text, "",
                       std::max(0, piece_column - piece.width), dim, hexadecimal(bytes), plain);
    if (out.size() >= kPartSize) {
      write(out);
      out.clear();
    }
  }
  write(out);
}

}  // namespace llm
