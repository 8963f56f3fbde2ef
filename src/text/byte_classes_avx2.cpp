#include <immintrin.h>

#include "text/byte_classes.h"

namespace llm {
namespace {

/// 64 bytes.
struct Bytes {
  __m256i low;
  __m256i high;
};

template <typename Compare>
uint64_t mask_of(Bytes bytes, Compare compare) {
  const auto low = static_cast<uint32_t>(_mm256_movemask_epi8(compare(bytes.low)));
  const auto high = static_cast<uint32_t>(_mm256_movemask_epi8(compare(bytes.high)));
  return low | static_cast<uint64_t>(high) << 32;
}

__m256i all(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

uint64_t equal(Bytes bytes, int byte) {
  return mask_of(bytes, [=](__m256i b) { return _mm256_cmpeq_epi8(b, all(byte)); });
}

/// Bytes from `first` to `last`, which are set apart by bits that `ignored` has.
uint64_t between(Bytes bytes, int first, int last, int ignored = 0) {
  return mask_of(bytes, [=](__m256i b) {
    const __m256i distance = _mm256_sub_epi8(_mm256_or_si256(b, all(ignored)), all(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(distance, all(last - first)), distance);
  });
}

}  // namespace

void classify_bytes_avx2(const char* text, ByteClasses& classes) {
  const auto* vectors = reinterpret_cast<const __m256i*>(text);
  const Bytes bytes = {_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)};
  classes.letters = between(bytes, 'a', 'z', 0x20);
  classes.digits = between(bytes, '0', '9');
  classes.blanks = equal(bytes, ' ');
  classes.spaces = between(bytes, '\t', '\r') | classes.blanks;
  classes.line_breaks = equal(bytes, '\r') | equal(bytes, '\n');
  classes.apostrophes = equal(bytes, '\'');
  const uint64_t beyond_ascii = mask_of(bytes, [](__m256i b) { return b; });
  classes.continuations = 0;
  classes.han_leads = 0;
  classes.other_leads = 0;
  if (beyond_ascii == 0) return;
  classes.continuations = between(bytes, 0x80, 0xbf);
  classes.han_leads = between(bytes, 0xe5, 0xe9);
  classes.other_leads = beyond_ascii & ~classes.continuations & ~classes.han_leads;
}

}  // namespace llm
