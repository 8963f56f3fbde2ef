// What a terminal shows after some output: a small model of an xterm, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Knows what libedit and the program send; anything else lands in unknown().
class VtScreen {
 public:
  VtScreen(int rows, int columns);

  void write(std::string_view bytes);
  /// As a terminal that doesn't reflow: lines are cut or padded.
  void resize(int rows, int columns);

  /// Everything that scrolled off, then the screen: lines without blanks at their ends, without
  /// empty lines at the bottom. Dimmed text is between { and }.
  std::string text() const;

  /// Sequences that this model doesn't know.
  const std::string& unknown() const { return unknown_; }
  bool bracketed_paste() const { return bracketed_paste_; }

 private:
  struct Cell {
    std::string text = " ";  // a character with its marks; empty: right half of the one before
    bool dim = false;
  };
  using Row = std::vector<Cell>;

  Row blank_row() const { return Row(static_cast<size_t>(columns_)); }
  void put(std::string_view character);
  void line_feed();
  size_t take_sequence(std::string_view rest);
  void obey(std::string_view parameters, char final);
  void private_mode(std::string_view parameters, bool set);
  void erase_line(int from, int to);
  Row& row() { return screen_[static_cast<size_t>(y_)]; }

  int rows_;
  int columns_;
  std::vector<Row> screen_;
  std::string scrolled_;
  int x_ = 0;  // columns_: the next character wraps
  int y_ = 0;
  bool dim_ = false;
  bool insert_ = false;
  bool bracketed_paste_ = false;
  std::string pending_;  // the beginning of a sequence or character
  std::string unknown_;
};

}  // namespace llm
