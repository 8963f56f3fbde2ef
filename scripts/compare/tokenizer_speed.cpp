// Times our tokenizer as tokenizer_peer.py times the others, with the same output; `make` builds it
// only for scripts/compare/tokenizer.sh.
//
// usage: tokenizer_speed TOKENIZER.json CORPUS_FILE PASSES [THREADS]
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/files.h"
#include "text/tokenizer.h"

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// CPU time of all threads of this process.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<std::string_view> documents_of(std::string_view corpus) {
  std::vector<std::string_view> documents;
  while (!corpus.empty()) {
    documents.push_back(corpus.substr(0, corpus.find('\0')));
    corpus.remove_prefix(documents.back().size() + 1);
  }
  return documents;
}

/// zlib's crc32, for ids in little-endian order.
uint32_t checksum(const std::vector<int32_t>& ids) {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
  }
  uint32_t crc = 0xffffffff;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      crc = crc >> 8 ^ table[(crc ^ static_cast<uint32_t>(id) >> shift) & 0xff];
    }
  }
  return ~crc;
}

/// One pass over all documents, each taken by whichever thread is free.
void encode_all(const llm::Tokenizer& tokenizer, const std::vector<std::string_view>& documents,
                int num_threads) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < documents.size();) tokenizer.encode(documents[i]);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < num_threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fmt::print(stderr, "usage: {} TOKENIZER.json CORPUS_FILE PASSES [THREADS]\n", argv[0]);
    return 2;
  }
  const int num_passes = std::atoi(argv[3]);
  const int num_threads = argc > 4 ? std::atoi(argv[4]) : 1;
  const double load_begin = wall_seconds();
  const double load_cpu_begin = cpu_seconds();
  const llm::Tokenizer tokenizer = llm::Tokenizer::load(argv[1]);
  const double load_cpu = cpu_seconds() - load_cpu_begin;
  const double load = wall_seconds() - load_begin;

  const std::string corpus = llm::read_file(argv[2], int64_t{1} << 32);
  const std::vector<std::string_view> documents = documents_of(corpus);
  std::vector<double> seconds;
  std::vector<double> walls;
  for (int pass = 0; pass < num_passes; ++pass) {
    const double wall_begin = wall_seconds();
    const double begin = cpu_seconds();
    encode_all(tokenizer, documents, num_threads);
    seconds.push_back(cpu_seconds() - begin);
    walls.push_back(wall_seconds() - wall_begin);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::vector<uint32_t> sums;
  size_t num_tokens = 0;
  for (const std::string_view document : documents) {
    const std::vector<int32_t> ids = tokenizer.encode(document);
    sums.push_back(checksum(ids));
    num_tokens += ids.size();
  }
  fmt::print(R"({{"load_s": {}, "load_cpu_s": {}, "bytes": {}, "tokens": {}, "seconds": [{}], )",
             load, load_cpu, corpus.size() - documents.size(), num_tokens,
             fmt::join(seconds, ", "));
  fmt::print(R"("walls": [{}], "peak_kib": {}, "sums": [{}]}})"
             "\n",
             fmt::join(walls, ", "), usage.ru_maxrss, fmt::join(sums, ", "));
}
