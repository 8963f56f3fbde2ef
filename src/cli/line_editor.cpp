// libedit (histedit.h) does the editing. Three things go around it: keys are read here, so that
// signals and pasted texts are seen; clusters are edited as stand-ins (edit_cells.h); and what it
// draws passes through a stream that turns stand-ins into text.
#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "cli/edit_cells.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr wchar_t kInsertMarkKey = 0x9f;  // a control character that no keyboard sends

bool is_utf8_locale() { return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0; }

/// Line ends as in a message: terminals paste a carriage return for each.
std::string with_newlines(const std::string& pasted) {
  std::string text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    if (pasted[i] != '\r') {
      text += pasted[i];
    } else if (i + 1 == pasted.size() || pasted[i + 1] != '\n') {
      text += '\n';
    }
  }
  return text;
}

}  // namespace

bool set_utf8_locale() {
  for (const char* name : {"", "C.UTF-8", "C.utf8", "en_US.UTF-8"}) {
    if (std::setlocale(LC_CTYPE, name) != nullptr && is_utf8_locale()) return true;
  }
  return false;
}

class LineEditor::Impl {
 public:
  Impl(int out, ChatSignals& signals, ChatHistory history);
  ~Impl();

  Line read(std::string_view prompt);
  void remember(const std::string& entry);

 private:
  enum class Event { kByte, kEnd, kInterrupt };

  static Impl& of(EditLine* editor);
  void bind_keys();
  void add_to_history(const std::string& entry);
  ssize_t draw(std::string_view bytes);

  Event next_byte(char& byte);
  Event obey(int signal);
  void stop();
  int read_key(wchar_t* key);
  unsigned char insert(std::string_view text);
  unsigned char insert_paste();

  int out_;
  ChatSignals* signals_;
  ChatHistory history_file_;
  EditCells cells_;
  std::FILE* screen_ = nullptr;
  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::wstring prompt_;
  std::string undrawn_;  // the beginning of a character that libedit hasn't written to its end
  std::string input_;    // bytes read and not yet used
  std::string mark_;     // a combining mark that kInsertMarkKey stands for
  bool interrupted_ = false;
  int ended_by_ = 0;  // a signal that ends the process
};

LineEditor::Impl& LineEditor::Impl::of(EditLine* editor) {
  void* self = nullptr;
  ::el_wget(editor, EL_CLIENTDATA, &self);
  return *static_cast<Impl*>(self);
}

LineEditor::Impl::Impl(int out, ChatSignals& signals, ChatHistory history)
    : out_(out), signals_(&signals), history_file_(std::move(history)) {
  cookie_io_functions_t functions{};
  functions.write = [](void* self, const char* bytes, size_t size) -> ssize_t {
    return static_cast<Impl*>(self)->draw({bytes, size});
  };
  screen_ = ::fopencookie(this, "w", functions);
  if (screen_ == nullptr) fail("line editor: {}", std::strerror(errno));
  editor_ = ::el_init_fd("llm", stdin, screen_, stderr, STDIN_FILENO, out_, STDERR_FILENO);
  history_ = ::history_winit();
  if (editor_ == nullptr || history_ == nullptr) fail("line editor: can't use this terminal");

  ::el_wset(editor_, EL_CLIENTDATA, this);
  ::el_wset(editor_, EL_SIGNAL, 0);
  ::el_wset(
      editor_, EL_PROMPT, +[](EditLine* editor) -> wchar_t* { return of(editor).prompt_.data(); });
  ::el_wset(
      editor_, EL_GETCFN,
      +[](EditLine* editor, wchar_t* key) -> int { return of(editor).read_key(key); });
  // Line ends come as they were typed or pasted: otherwise libedit's mode while a line is edited
  // (-d) makes "\r" of "\n", and two of a pasted "\r\n".
  ::el_wset(editor_, EL_SETTY, L"-d", L"-icrnl", L"-inlcr", nullptr);
  HistEventW event;
  ::history_w(history_, &event, H_SETSIZE, static_cast<int>(ChatHistory::kMaxEntries));
  ::history_w(history_, &event, H_SETUNIQUE, 1);
  ::el_wset(editor_, EL_HIST, history_w, history_);
  for (const std::string& entry : history_file_.load()) add_to_history(entry);
  bind_keys();
}

LineEditor::Impl::~Impl() {
  ::el_end(editor_);
  ::history_wend(history_);
  std::fclose(screen_);
}

void LineEditor::Impl::bind_keys() {
  ::el_wset(editor_, EL_EDITOR, L"emacs");
  ::el_wset(
      editor_, EL_ADDFN, L"llm-paste", L"insert a pasted text",
      +[](EditLine* editor, wint_t) -> unsigned char { return of(editor).insert_paste(); });
  ::el_wset(
      editor_, EL_ADDFN, L"llm-newline", L"insert a newline",
      +[](EditLine* editor, wint_t) -> unsigned char { return of(editor).insert("\n"); });
  ::el_wset(
      editor_, EL_ADDFN, L"llm-mark", L"add a combining mark",
      +[](EditLine* editor, wint_t) -> unsigned char {
        return of(editor).insert(of(editor).mark_);
      });
  const auto bind = [&](const wchar_t* key, const wchar_t* function) {
    ::el_wset(editor_, EL_BIND, key, function, nullptr);
  };
  const wchar_t mark_key[] = {kInsertMarkKey, 0};
  bind(mark_key, L"llm-mark");
  bind(L"\\e[200~", L"llm-paste");
  bind(L"\\e\\r", L"llm-newline");
  bind(L"\\e\\n", L"llm-newline");
  bind(L"\\e[3~", L"ed-delete-next-char");  // Delete
  bind(L"\\e[H", L"ed-move-to-beg");        // Home and End, in their usual forms
  bind(L"\\e[1~", L"ed-move-to-beg");
  bind(L"\\e[F", L"ed-move-to-end");
  bind(L"\\e[4~", L"ed-move-to-end");
  bind(L"\\e[1;5C", L"em-next-word");  // Ctrl with right and left
  bind(L"\\e[1;5D", L"ed-prev-word");
  bind(L"^W", L"ed-delete-prev-word");
  bind(L"^R", L"em-inc-search-prev");
}

ssize_t LineEditor::Impl::draw(std::string_view bytes) {
  std::string text = std::exchange(undrawn_, {});
  text += bytes;
  std::string drawn;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Part part = first_utf8_part(rest);
    if (part.kind == Utf8Part::Kind::kIncomplete) {
      undrawn_ = rest;
      break;
    }
    const std::string_view character = rest.substr(0, part.length);
    const bool whole = part.kind == Utf8Part::Kind::kCharacter;
    drawn += whole ? cells_.screen(code_point_at(character, 0).value) : std::string(character);
    rest.remove_prefix(part.length);
  }
  write_all(out_, drawn);  // a terminal that is gone ends the next read
  return static_cast<ssize_t>(bytes.size());
}

void LineEditor::Impl::stop() {
  ::el_wset(editor_, EL_PREP_TERM, 0);
  write_all(out_, kPasteOff);
  ::raise(SIGSTOP);
  write_all(out_, kPasteOn);
  ::el_wset(editor_, EL_PREP_TERM, 1);
  ::el_wset(editor_, EL_REFRESH);
}

LineEditor::Impl::Event LineEditor::Impl::obey(int signal) {
  if (signal == SIGINT) {
    interrupted_ = true;
    return Event::kInterrupt;
  }
  if (signal == SIGWINCH) {
    // Where the terminal left what was drawn is not known: draw anew from where the cursor is.
    write_all(out_, "\r\x1b[J");
    ::el_resize(editor_);
    ::el_wset(editor_, EL_REFRESH);
    return Event::kByte;
  }
  if (signal == SIGTSTP) {
    stop();
    return Event::kByte;
  }
  ended_by_ = signal;
  return Event::kEnd;
}

/// Waits for input and obeys the signals that come meanwhile.
LineEditor::Impl::Event LineEditor::Impl::next_byte(char& byte) {
  while (input_.empty()) {
    while (const std::optional<int> signal = signals_->take()) {
      if (const Event event = obey(*signal); event != Event::kByte) return event;
    }
    std::array<pollfd, 2> fds = {pollfd{STDIN_FILENO, POLLIN, 0},
                                 pollfd{signals_->wake_fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) <= 0 || fds[0].revents == 0) continue;
    std::array<char, 4096> block;
    const ssize_t got = read_some(STDIN_FILENO, block.data(), block.size());
    if (got <= 0) return Event::kEnd;
    input_.append(block.data(), static_cast<size_t>(got));
  }
  byte = input_.front();
  input_.erase(0, 1);
  return Event::kByte;
}

/// libedit's EL_GETCFN: 1 with a key, 0 at the end, -1 to give up the line.
int LineEditor::Impl::read_key(wchar_t* key) {
  std::string bytes;
  while (true) {
    char byte = 0;
    const Event event = next_byte(byte);
    if (event != Event::kByte) return event == Event::kEnd ? 0 : -1;
    bytes += byte;
    const Utf8Part part = first_utf8_part(bytes);
    if (part.kind == Utf8Part::Kind::kIncomplete) continue;
    // What follows an ill-formed part begins anew.
    input_.insert(0, bytes.substr(part.length));
    bytes.resize(part.length);
    const bool whole = part.kind == Utf8Part::Kind::kCharacter;
    if (!whole) bytes = kReplacementCharacter;
    std::wstring cell;
    cells_.append(cell, bytes);
    const char32_t c = code_point_at(bytes, 0).value;
    if (c == kInsertMarkKey) continue;
    if (EditCells::is_mark(c)) mark_ = bytes;
    *key = EditCells::is_mark(c) ? kInsertMarkKey : cell.front();
    return 1;
  }
}

/// Inserts at the cursor; marks join the character before it.
unsigned char LineEditor::Impl::insert(std::string_view text) {
  const LineInfoW* line = ::el_wline(editor_);
  std::wstring inserted;
  const bool joins = line->cursor > line->buffer && !text.empty() &&
                     EditCells::is_mark(code_point_at(text, 0).value);
  if (joins) {
    inserted = line->cursor[-1];
    ::el_wdeletestr(editor_, 1);
  }
  cells_.append(inserted, text);
  return ::el_winsertstr(editor_, inserted.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

unsigned char LineEditor::Impl::insert_paste() {
  std::string pasted;
  while (!pasted.ends_with(kPasteEnd)) {
    char byte = 0;
    const Event event = next_byte(byte);
    if (event != Event::kByte) return CC_EOF;
    pasted += byte;
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  // libedit's lines end at a NUL.
  std::erase(pasted, '\0');
  return insert(replace_invalid_utf8(with_newlines(pasted)));
}

Line LineEditor::Impl::read(std::string_view prompt) {
  const ChatSignals::Scope noted({SIGWINCH, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT});
  prompt_.assign(prompt.begin(), prompt.end());
  interrupted_ = false;
  ::el_resize(editor_);  // the size may have changed while nobody looked
  // libedit would show the prompt before, and what is typed meanwhile would be shown twice.
  ::el_wset(editor_, EL_PREP_TERM, 1);
  write_all(out_, kPasteOn);
  int length = 0;
  const wchar_t* line = ::el_wgets(editor_, &length);
  std::fflush(screen_);
  write_all(out_, kPasteOff);
  if (ended_by_ != 0) {
    std::signal(ended_by_, SIG_DFL);
    ::raise(ended_by_);
  }
  if (interrupted_) {
    write_all(out_, "\n");
    return {.kind = Line::Kind::kInterrupted};
  }
  if (line == nullptr || length <= 0) {
    write_all(out_, "\n");
    return {.kind = Line::Kind::kEnd};
  }
  std::string text = cells_.text({line, static_cast<size_t>(length)});
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\n')) text.pop_back();  // of a paste that was a whole line
  return {.kind = Line::Kind::kText, .text = std::move(text)};
}

void LineEditor::Impl::add_to_history(const std::string& entry) {
  std::wstring line;
  cells_.append(line, entry);
  HistEventW event;
  ::history_w(history_, &event, H_ENTER, line.c_str());
}

void LineEditor::Impl::remember(const std::string& entry) {
  add_to_history(entry);
  history_file_.add(entry);
}

LineEditor::LineEditor(int out, ChatSignals& signals, ChatHistory history)
    : impl_(std::make_unique<Impl>(out, signals, std::move(history))) {}
LineEditor::~LineEditor() = default;
Line LineEditor::read(std::string_view prompt) { return impl_->read(prompt); }
void LineEditor::remember(const std::string& entry) { impl_->remember(entry); }

}  // namespace llm
