// Layout study of the CPU matrix products: prints Markdown tables. Built and run by run.sh on a
// machine with AVX-512 BF16. What it decided is written at the head of src/backend/cpu/matmul.h.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels.h"

namespace study {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <class E>
using Memory = std::unique_ptr<E[], Free>;

template <class E>
Memory<E> allocate(int64_t count) {
  return Memory<E>(
      static_cast<E*>(std::aligned_alloc(4096, (count * sizeof(E) + 65536) / 4096 * 4096)));
}

/// Runs f(thread) on `threads` threads after a common start; returns seconds.
double timed(int threads, const std::function<void(int)>& f) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back([&, t] {
      ++ready;
      while (!go) {
      }
      f(t);
    });
  }
  while (ready != threads - 1) {
  }
  const auto start = std::chrono::steady_clock::now();
  go = true;
  f(0);
  for (std::thread& t : others) t.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Work on outputs [n0, n1) of weight copy c.
using Kernel = std::function<void(int64_t c, int64_t n0, int64_t n1)>;

struct Variant {
  std::string name;
  Kernel kernel;
  std::vector<double> seconds;  // one per repetition
};

double best_part(std::vector<double> v) {  // lower quartile: other work on the machine only adds
  std::sort(v.begin(), v.end());
  return v[v.size() / 4];
}

/// Repetitions of all variants, interleaved, each over all copies; threads split the outputs.
void run(std::vector<Variant>& variants, int threads, int64_t n, int64_t copies, int reps) {
  for (int r = 0; r < reps; ++r) {
    for (Variant& v : variants) {
      v.seconds.push_back(timed(threads, [&](int t) {
        const int64_t per = (n / threads + 127) / 128 * 128;
        for (int64_t c = 0; c < copies; ++c) {
          v.kernel(c, std::min(n, t * per), t == threads - 1 ? n : std::min(n, (t + 1) * per));
        }
      }));
    }
  }
}

double read_gbs(const uint16_t* data, int64_t bytes, int threads) {
  std::vector<double> seconds;
  for (int r = 0; r < 9; ++r) {
    seconds.push_back(timed(threads, [&](int t) {
      const char* p = reinterpret_cast<const char*>(data) + bytes / threads * t;
      __m512i sum[4] = {};
      for (int64_t i = 0; i + 256 <= bytes / threads; i += 256) {
        for (int j = 0; j < 4; ++j) {
          sum[j] = _mm512_add_epi64(sum[j], _mm512_loadu_si512(p + i + 64 * j));
          _mm_prefetch(p + i + 64 * j + 16384, _MM_HINT_T1);
        }
      }
      volatile int64_t sink = _mm512_reduce_add_epi64(sum[0] + sum[1] + sum[2] + sum[3]);
      (void)sink;
    }));
  }
  return static_cast<double>(bytes) / best_part(seconds) / 1e9;
}

/// Multiply-adds on registers only: 2 FLOP per element of k.
template <class T>
double peak_gflops(int threads) {
  std::vector<double> seconds;
  constexpr int kSteps = 2000000;
  for (int r = 0; r < 9; ++r) {
    seconds.push_back(timed(threads, [&](int) {
      alignas(64) uint16_t w[32] = {};
      typename T::Acc acc[12];
      for (auto& a : acc) a = T::zero();
      auto pairs = T::load(w);
      for (int i = 0; i < kSteps; ++i) {
        asm volatile("" : "+v"(pairs));
        if constexpr (std::is_same_v<T, Dot>) {
          for (auto& a : acc) a = _mm512_dpbf16_ps(a, (__m512bh)pairs, (__m512bh)pairs);
        } else if constexpr (T::kLanes == 16) {
          const auto f = _mm512_castsi512_ps(pairs);
          for (auto& a : acc) a = _mm512_fmadd_ps(f, f, a);
        } else {
          const auto f = _mm256_castsi256_ps(pairs);
          for (auto& a : acc) a = _mm256_fmadd_ps(f, f, a);
        }
      }
      float sink[16];
      for (auto& a : acc) asm volatile("" : "+v"(a));
      T::store(sink, acc[0]);
      volatile float out = sink[0];
      (void)out;
    }));
  }
  const double flop = 2.0 * T::kLanes * 12 * kSteps * (std::is_same_v<T, Dot> ? 2 : 1);
  return threads * flop / best_part(seconds) / 1e9;
}

constexpr int64_t kBytes = int64_t{512} << 20;

struct Data {
  Memory<uint16_t> rows = allocate<uint16_t>(kBytes / 2);
  Memory<uint16_t> panels = allocate<uint16_t>(kBytes / 2);
  Memory<float> scales = allocate<float>(kBytes / 64);
  Memory<float> y = allocate<float>(int64_t{512} * 160000);
};

template <class T>
Memory<typename T::X> activations(int64_t count) {
  auto x = allocate<typename T::X>(count);
  for (int64_t i = 0; i < count; ++i) x[i] = T::x_of(static_cast<float>(i % 17) - 8);
  return x;
}

struct Result {
  int64_t k, n, m;
  int threads;
  std::vector<Variant> variants;
};

template <class T>
void study_16bit(const Data& d, int64_t k, int64_t n, int64_t m, int threads, int reps,
                 double bandwidth, double peak) {
  const int64_t copies =
      m > 16 ? 1 : std::max<int64_t>(1, (m == 1 ? kBytes : kBytes / 2) / (2 * k * n));
  const auto x = activations<T>(512 * k + 64);
  const uint16_t *rows = d.rows.get(), *panels = d.panels.get();
  const typename T::X* xp = x.get();
  float* y = d.y.get();
  const auto at = [&](const uint16_t* w, int64_t c) { return w + c * n * k; };
  constexpr bool kWide = T::kLanes == 16;
  std::vector<Variant> v;
  const auto add = [&](const char* name, Kernel kernel) { v.push_back({name, kernel, {}}); };
#define ROWS_A(R, M, P) \
  [=](int64_t c, int64_t a, int64_t b) { rows_a<T, R, M, P>(at(rows, c), xp, y, a, b, k, m, n); }
#define LANES_B(B, M, P) \
  [=](int64_t c, int64_t a, int64_t b) { lanes_b<T, B, M, P>(at(panels, c), xp, y, a, b, k, m, n); }
#define LANES_C(M, P, L) \
  [=](int64_t c, int64_t a, int64_t b) { lanes_c<T, M, P, L>(at(rows, c), xp, y, a, b, k, m, n); }
#define GEMM(F, W, B, M) \
  [=](int64_t c, int64_t a, int64_t b) { F<T, B, M>(at(W, c), xp, y, a, b, k, m, n); }
  if (m == 1) {
    add("A 4 rows", ROWS_A(4, 1, false));
    add("A 4 rows, prefetch", ROWS_A(4, 1, true));
    add("B 1 vector", LANES_B(1, 1, false));
    add("B 2 vectors", LANES_B(2, 1, false));
    add("B 2 vectors, prefetch", LANES_B(2, 1, true));
    add("C quarter lines, prefetch", LANES_C(1, true, false));
    add("C", LANES_C(1, false, true));
    add("C, prefetch", LANES_C(1, true, true));
  } else if (m == 16) {
    constexpr int kMr = kWide ? 8 : 4;
    if constexpr (kWide) {
      add("A 2 x 8", ROWS_A(2, 8, true));
    } else {
      add("A 2 x 4", ROWS_A(2, 4, true));
    }
    add("B 2 vectors x 8 (4)", LANES_B(2, kMr, true));
    if constexpr (kWide) add("B 4 vectors x 4", LANES_B(4, 4, true));
    add("C in registers x 16 (8)", LANES_C(kWide ? 16 : 8, true, false));
    add("C in registers x 8, full lines", LANES_C(8, true, true));
    add("C through scratch, 2 vectors x 8 (4)", GEMM(gemm_c, rows, 2, kMr));
    if constexpr (kWide) add("C through scratch, 4 vectors x 4", GEMM(gemm_c, rows, 4, 4));
  } else {
    constexpr int kMr = kWide ? 12 : 6;
    if constexpr (kWide) {
      add("A 4 x 6", ROWS_A(4, 6, false));
    } else {
      add("A 4 x 2", ROWS_A(4, 2, false));
    }
    add("B 2 vectors x 12 (6)", GEMM(gemm_b, panels, 2, kMr));
    if constexpr (kWide) add("B 4 vectors x 6", GEMM(gemm_b, panels, 4, 6));
    add("C through scratch, 2 vectors x 12 (6)", GEMM(gemm_c, rows, 2, kMr));
    if constexpr (kWide) add("C through scratch, 4 vectors x 6", GEMM(gemm_c, rows, 4, 6));
  }
#undef ROWS_A
#undef LANES_B
#undef LANES_C
#undef GEMM
  run(v, threads, n, copies, reps);
  const int64_t rows_done = m == 512 ? (T::kLanes == 16 ? 504 : 510) : m;
  for (Variant& variant : v) {
    const bool a512 = m == 512 && variant.name[0] == 'A';
    const double s = best_part(variant.seconds) / static_cast<double>(copies);
    const double gbs = 2.0 * k * n / s / 1e9;
    const double gflops = 2.0 * k * n * (a512 ? (kWide ? 510 : 512) : rows_done) / s / 1e9;
    std::printf("| %s | %lld/%lld | %lld | %d | %s | %.1f | %.0f | %.0f | %.0f |\n", T::kName,
                (long long)k, (long long)n, (long long)m, threads, variant.name.c_str(), gbs,
                100 * gbs / bandwidth, gflops, 100 * gflops / peak);
  }
  std::fflush(stdout);
}

void study_w4(const Data& d, int64_t k, int64_t n, int64_t m, int threads, int reps,
              double bandwidth, double peak) {
  const double bytes = static_cast<double>(k * n) * (0.5 + 4.0 / 128);
  const int64_t copies = m > 16 ? 1 : std::max<int64_t>(1, kBytes / 4 / (k * n));
  const auto x = activations<Dot>(512 * k + 64);
  const auto* w = reinterpret_cast<const uint8_t*>(d.rows.get());
  const uint16_t* xp = x.get();
  float* y = d.y.get();
  std::vector<Variant> v;
#define W4(P, B, M)                                                                             \
  [=, &d](int64_t c, int64_t a, int64_t b) {                                                    \
    w4_dot<P, B, M>(w + c * n * k / 2, d.scales.get() + c * n * k / 128, xp, y, a, b, k, m, n); \
  }
  if (m == 1) {
    v.push_back({"A 4 rows", W4(false, 4, 1), {}});
    v.push_back({"B 1 vector", W4(true, 1, 1), {}});
    v.push_back({"B 2 vectors", W4(true, 2, 1), {}});
  } else {
    v.push_back({"A 1 x 8", W4(false, 1, 8), {}});
    v.push_back({"B 1 vector x 8", W4(true, 1, 8), {}});
  }
#undef W4
  run(v, threads, n, copies, reps);
  for (Variant& variant : v) {
    const double s = best_part(variant.seconds) / static_cast<double>(copies);
    const double gflops = 2.0 * k * n * m / s / 1e9;
    std::printf("| W4 g128, BF16 dot | %lld/%lld | %lld | %d | %s | %.1f | %.0f | %.0f | %.0f |\n",
                (long long)k, (long long)n, (long long)m, threads, variant.name.c_str(),
                bytes / s / 1e9, 100 * bytes / s / 1e9 / bandwidth, gflops, 100 * gflops / peak);
  }
  std::fflush(stdout);
}

void study_repack(const Data& d, int threads, double bandwidth) {
  std::vector<Variant> v;
  v.push_back({"repack",
               [&](int64_t c, int64_t a, int64_t b) {
                 const int64_t at = c * 4096 * 1024;
                 repack<Dot>(d.rows.get() + at, d.panels.get() + at + a * 1024, a, b, 1024);
               },
               {}});
  run(v, threads, 4096, kBytes / (4096 * 2048), 5);
  const double gbs = kBytes / best_part(v[0].seconds) / 1e9;
  std::printf(
      "\nRepack A to B, %d thread(s): %.1f GB/s of weights (%.0f %% of the read bandwidth), "
      "warm pages\n",
      threads, gbs, 100 * gbs / bandwidth);
}

}  // namespace
}  // namespace study

int main(int argc, char** argv) {
  using namespace study;
  const int reps = argc > 1 ? std::atoi(argv[1]) : 7;
  const int only_m = argc > 2 ? std::atoi(argv[2]) : 0;
  Data d;
  for (int64_t i = 0; i < kBytes / 2; ++i) {
    d.rows[i] = d.panels[i] = bf16_of(static_cast<float>(i % 255) * 0.01f - 1.27f);
  }
  for (int64_t i = 0; i < kBytes / 64; ++i) d.scales[i] = 0.01f;
  const int64_t shapes[][2] = {
      {1024, 4096}, {2048, 1024}, {1024, 6144}, {3072, 1024}, {1024, 151936}};
  for (int threads = 1; threads <= 2; ++threads) {
    const double bandwidth = read_gbs(d.rows.get(), kBytes, threads);
    const double dot = peak_gflops<Dot>(threads), f512 = peak_gflops<Fma512>(threads),
                 f256 = peak_gflops<Fma256>(threads);
    std::printf(
        "\n%d thread(s): read %.1f GB/s; peak BF16 dot %.0f, FMA 512 bit %.0f, FMA 256 bit "
        "%.0f GFLOP/s\n\n",
        threads, bandwidth, dot, f512, f256);
    std::printf(
        "| arithmetic | k/n | M | threads | layout | GB/s | %% of read | GFLOP/s | %% of peak |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (const int64_t m : {1, 16, 512}) {
      if (only_m != 0 && m != only_m) continue;
      for (const auto& s : shapes) {
        if (m != 1 && s[1] > 100000) continue;
        study_16bit<Dot>(d, s[0], s[1], m, threads, reps, bandwidth, dot);
      }
      study_16bit<Fma512>(d, 1024, 4096, m, threads, reps, bandwidth, f512);
      study_16bit<Fma256>(d, 1024, 4096, m, threads, reps, bandwidth, f256);
      study_w4(d, 1024, 6144, m, threads, reps, bandwidth, dot);
      study_w4(d, 3072, 1024, m, threads, reps, bandwidth, dot);
    }
    study_repack(d, threads, bandwidth);
  }
}
