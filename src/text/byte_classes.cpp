#include "text/byte_classes.h"

namespace llm {

void classify_bytes_generic(const char* text, ByteClasses& classes);
#ifdef __x86_64__
void classify_bytes_avx2(const char* text, ByteClasses& classes);
void classify_bytes_avx512(const char* text, ByteClasses& classes);
#endif

ByteClassifier byte_classifier(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2:
      return classify_bytes_avx2;
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
      return classify_bytes_avx512;
#endif
    default:
      return classify_bytes_generic;
  }
}

}  // namespace llm
