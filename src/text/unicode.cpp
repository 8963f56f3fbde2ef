#include "text/unicode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

#include "text/text_kernels.h"
#include "text/utf8.h"

namespace llm {
namespace {

using namespace unicode_tables;

// Hangul syllables are composed by a formula: Unicode standard, section 3.12.
constexpr char32_t kSyllableBase = 0xac00;
constexpr char32_t kLeadBase = 0x1100;
constexpr char32_t kVowelBase = 0x1161;
constexpr char32_t kTrailBase = 0x11a7;  // one before the first: trail 0 is none
constexpr char32_t kNumLeads = 19;
constexpr char32_t kNumVowels = 21;
constexpr char32_t kNumTrails = 28;
constexpr char32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

struct Mark {
  char32_t code_point;
  uint8_t combining_class;
};

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// True if a text may differ from its NFC form because of this character: it has a combining class,
/// may join the one before it, or never stands in NFC. Any other one is a safe place to cut.
bool may_change(char32_t code_point) { return (properties_of(code_point) & 4) != 0; }

uint8_t combining_class(char32_t c) {
  const auto* end = std::end(kCombiningRanges);
  const auto* range = std::lower_bound(
      std::begin(kCombiningRanges), end, c,
      [](const CombiningRange& r, char32_t code_point) { return r.last < code_point; });
  return range != end && range->first <= c ? range->combining_class : 0;
}

void append_mark(std::vector<Mark>& out, char32_t c) { out.push_back({c, combining_class(c)}); }

/// Appends the full canonical decomposition of c.
void append_decomposed(std::vector<Mark>& out, char32_t c) {
  if (c - kSyllableBase < kNumSyllables) {
    const char32_t index = c - kSyllableBase;
    out.push_back({kLeadBase + index / (kNumVowels * kNumTrails), 0});
    out.push_back({kVowelBase + index / kNumTrails % kNumVowels, 0});
    if (index % kNumTrails != 0) out.push_back({kTrailBase + index % kNumTrails, 0});
    return;
  }
  const auto* end = std::end(kDecompositions);
  const auto* found = std::lower_bound(
      std::begin(kDecompositions), end, c,
      [](const Decomposition& d, char32_t code_point) { return d.code_point < code_point; });
  if (found == end || found->code_point != c) {
    append_mark(out, c);
    return;
  }
  for (int i = 0; i < found->length; ++i) append_mark(out, kDecomposed[found->begin + i]);
}

/// The character that the two make together, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (first - kLeadBase < kNumLeads && second - kVowelBase < kNumVowels) {
    return kSyllableBase + ((first - kLeadBase) * kNumVowels + second - kVowelBase) * kNumTrails;
  }
  if (first - kSyllableBase < kNumSyllables && (first - kSyllableBase) % kNumTrails == 0 &&
      second > kTrailBase && second - kTrailBase < kNumTrails) {
    return first + second - kTrailBase;
  }
  const auto* end = std::end(kCompositions);
  const auto* found =
      std::lower_bound(std::begin(kCompositions), end, Composition{first, second, 0},
                       [](const Composition& a, const Composition& b) {
                         return a.first != b.first ? a.first < b.first : a.second < b.second;
                       });
  return found != end && found->first == first && found->second == second ? found->composite : 0;
}

/// Puts each run of combining marks into the order of their classes; equal ones keep theirs.
void reorder(std::vector<Mark>& text) {
  const auto is_starter = [](const Mark& m) { return m.combining_class == 0; };
  for (auto run = text.begin(); run != text.end();) {
    run = std::find_if_not(run, text.end(), is_starter);
    const auto end = std::find_if(run, text.end(), is_starter);
    std::stable_sort(run, end, [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    run = end;
  }
}

/// Joins what can be joined, in place: a mark joins the last starter unless a mark between them has
/// the same or a higher class (Unicode standard, section 3.11, D117).
void compose(std::vector<Mark>& text) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  size_t kept = 0;
  for (const Mark mark : text) {
    if (starter != kNone) {
      const bool blocked =
          kept != starter + 1 && text[kept - 1].combining_class >= mark.combining_class;
      if (!blocked) {
        if (const char32_t both = composed(text[starter].code_point, mark.code_point)) {
          text[starter].code_point = both;
          continue;
        }
      }
    }
    if (mark.combining_class == 0) starter = kept;
    text[kept++] = mark;
  }
  text.resize(kept);
}

void append_normalized(std::string& out, std::string_view segment, std::vector<Mark>& scratch) {
  scratch.clear();
  for (size_t i = 0; i < segment.size();) {
    const CodePoint c = code_point_at(segment, i);
    append_decomposed(scratch, c.value);
    i += c.length;
  }
  reorder(scratch);
  compose(scratch);
  for (const Mark mark : scratch) append_utf8(out, mark.code_point);
}

/// Where a text has to be looked at: its first character that may change, and the character before
/// that one, with which it may join.
struct Suspect {
  size_t segment_begin;
  size_t position;  // text.size() if there is none
};

/// The end of the ASCII characters that begin at `begin`, where there is one.
size_t end_of_ascii(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  uint64_t eight;
  for (; end + sizeof eight <= text.size(); end += sizeof eight) {
    std::memcpy(&eight, text.data() + end, sizeof eight);
    if (eight & 0x8080808080808080) break;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end;
}

Suspect find_suspect(std::string_view text, size_t from) {
  size_t previous = from;
  for (size_t i = from; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      i = end_of_ascii(text, i);
      previous = i - 1;
      continue;
    }
    const CodePoint c = code_point_at(text, i);
    if (may_change(c.value)) return {previous, i};
    previous = i;
    i += c.length;
  }
  return {text.size(), text.size()};
}

size_t end_of_segment(std::string_view text, size_t i) {
  while (i < text.size()) {
    const CodePoint c = code_point_at(text, i);
    if (!may_change(c.value)) break;
    i += c.length;
  }
  return i;
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  const TextKernels& kernels = text_kernels();
  size_t done = 0;
  while (done + kBlockBytes <= text.size()) {
    ByteClasses bytes;
    kernels.classify(text.data() + done, bytes);
    // (Chinese characters never change.)
    for (uint64_t leads = bytes.other_leads; leads != 0; leads &= leads - 1) {
      const auto position = done + static_cast<size_t>(std::countr_zero(leads));
      if (may_change(code_point_at(text, position).value)) return false;
    }
    done += kBlockBytes;
  }
  while (done < text.size() && is_continuation(text[done])) ++done;
  return find_suspect(text, done).position == text.size();
}

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> scratch;
  for (size_t done = 0; done < text.size();) {
    const Suspect suspect = find_suspect(text, done);
    out.append(text.substr(done, suspect.segment_begin - done));
    done = end_of_segment(text, suspect.position);
    append_normalized(out, text.substr(suspect.segment_begin, done - suspect.segment_begin),
                      scratch);
  }
  return out;
}

}  // namespace llm
