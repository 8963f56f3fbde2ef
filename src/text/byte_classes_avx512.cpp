#include <immintrin.h>

#include "text/byte_classes.h"

namespace llm {
namespace {

__m512i all(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }

uint64_t equal(__m512i bytes, int byte) { return _mm512_cmpeq_epi8_mask(bytes, all(byte)); }

uint64_t between(__m512i bytes, int first, int last) {
  return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, all(first)), all(last - first));
}

}  // namespace

void classify_bytes_avx512(const char* text, ByteClasses& classes) {
  const __m512i bytes = _mm512_loadu_si512(text);
  classes.letters = between(_mm512_or_si512(bytes, all(0x20)), 'a', 'z');
  classes.digits = between(bytes, '0', '9');
  classes.blanks = equal(bytes, ' ');
  classes.spaces = between(bytes, '\t', '\r') | classes.blanks;
  classes.line_breaks = equal(bytes, '\r') | equal(bytes, '\n');
  classes.apostrophes = equal(bytes, '\'');
  const uint64_t beyond_ascii = _mm512_movepi8_mask(bytes);
  classes.continuations = 0;
  classes.han_leads = 0;
  classes.other_leads = 0;
  if (beyond_ascii == 0) return;
  classes.continuations = between(bytes, 0x80, 0xbf);
  classes.han_leads = between(bytes, 0xe5, 0xe9);
  classes.other_leads = beyond_ascii & ~classes.continuations & ~classes.han_leads;
}

}  // namespace llm
