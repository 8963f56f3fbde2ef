#include "backend/cpu/matmul.h"

#include <algorithm>
#include <vector>

namespace llm {

extern const MatmulKernels kMatmulGeneric;
#ifdef __x86_64__
extern const MatmulKernels kMatmulAvx2;
extern const MatmulKernels kMatmulAvx512;
extern const MatmulKernels kMatmulAvx512Bf16;
#endif

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2:
      return kMatmulAvx2;
    case Isa::kAvx512:
      return kMatmulAvx512;
    case Isa::kAvx512Bf16:
      return kMatmulAvx512Bf16;
#endif
    default:
      return kMatmulGeneric;
  }
}

namespace {

// Panels of a chunk of outputs and a tile of x share L2 (half a MiB to 2 MiB a core).
constexpr int64_t kPanelBytes = 384 << 10;
// Outputs of a chunk, at most: bounds the tile of results.
constexpr int64_t kMaxChunk = 512;
// Up to this many rows of x memory is the limit: chunks are small, and the next one is fetched
// while this one is multiplied.
constexpr int64_t kFewRows = 64;
// Weights of a task where memory is the limit.
constexpr int64_t kTaskBytes = 1 << 20;
// Tasks per thread, so that threads that get less of their core can take fewer.
constexpr int64_t kTasksPerThread = 4;
// Packing fewer words than this isn't worth waking threads.
constexpr int64_t kPackAlone = 32 << 10;

constexpr int kMaxSources = 2;  // gate and up

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// x as one weight format needs it.
struct Operand {
  const uint32_t* words = nullptr;
  int64_t steps = 0;
};

/// Some outputs of a product: rows [0, rows) of one weight, or of the gate and the up weight.
struct Piece {
  const LinearPart* sources[kMaxSources] = {};
  WeightFormat formats[kMaxSources] = {};
  Operand x[kMaxSources];
  int num_sources = 1;
  int64_t rows = 0;
  int64_t column = 0;  // of the first output in y
  int64_t rows_per_task = 0;
  int64_t num_tasks = 0;
};

WeightFormat format_of(DType dtype, bool pairs) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return pairs ? WeightFormat::kBF16Pairs : WeightFormat::kBF16;
    default:
      bug("weight dtype", fmt::format("no matrix product for {}", name_of(dtype)));
  }
}

bool is_widened(WeightFormat format) {
  return format == WeightFormat::kF16 || format == WeightFormat::kBF16;
}

int64_t row_bytes_of(const LinearPart& part) {
  return part.weight.row_bytes();
}

/// Steps of a weight row.
int64_t steps_of(const LinearPart& part, WeightFormat format) {
  return round_up(row_bytes_of(part), 4) / 4 * (is_widened(format) ? 2 : 1);
}

/// One product under way; what its tasks share.
class Product {
 public:
  Product(const MatmulKernels& kernels, float* y, int64_t ldy, const PackedRows& x,
          Epilogue epilogue, int num_threads)
      : kernels_(kernels), y_(y), ldy_(ldy), x_(x), epilogue_(epilogue), threads_(num_threads) {}

  void add(std::initializer_list<const LinearPart*> sources, int64_t column);
  void run(ThreadPool& pool) const;

 private:
  Operand operand(WeightFormat format);
  int64_t chunk_outputs(const Piece& piece) const;
  void run_task(const Piece& piece, int64_t first, int64_t last, std::byte* scratch) const;
  void multiply(const Piece& piece, int source, int64_t first, int64_t outputs, int64_t tile,
                const uint32_t* panels, float* out) const;
  void finish(const Piece& piece, int64_t first, int64_t outputs, int64_t tile, float* out) const;

  bool direct() const { return x_.m() <= kernels_.direct_rows; }
  static WeightRows weight_rows(const Piece& piece, int source, int64_t first, int64_t outputs) {
    const LinearPart& part = *piece.sources[source];
    const int64_t row_bytes = row_bytes_of(part);
    return {reinterpret_cast<const char*>(part.weight.plain().data) + first * row_bytes, row_bytes,
            outputs};
  }

  const MatmulKernels& kernels_;
  float* y_;
  int64_t ldy_;
  const PackedRows& x_;
  Epilogue epilogue_;
  int64_t threads_;
  std::vector<Piece> pieces_;
  Buffer widened_;  // the pairs of x as floats, for weights that aren't BF16
};

/// The words of x; pairs are widened once where weights that aren't BF16 meet them.
Operand Product::operand(WeightFormat format) {
  if (!x_.pairs() || format == WeightFormat::kBF16Pairs) return {x_.tile(0), x_.steps()};
  const int64_t steps = 2 * x_.steps();
  if (widened_.size() == 0) {
    widened_ = Buffer(x_.m() * steps * 4);
    uint32_t* to = reinterpret_cast<uint32_t*>(widened_.data());
    for (int64_t t = 0; t < x_.num_tiles(); ++t) {
      const int64_t rows = x_.tile_begin(t + 1) - x_.tile_begin(t);
      const uint32_t* from = x_.tile(t);
      for (int64_t s = 0; s < x_.steps(); ++s, from += rows, to += 2 * rows) {
        for (int64_t i = 0; i < rows; ++i) {
          to[i] = from[i] << 16;
          to[rows + i] = from[i] & 0xffff0000u;
        }
      }
    }
  }
  return {reinterpret_cast<const uint32_t*>(widened_.data()), steps};
}

void Product::add(std::initializer_list<const LinearPart*> sources, int64_t column) {
  Piece piece;
  piece.num_sources = static_cast<int>(sources.size());
  piece.column = column;
  piece.rows = (*sources.begin())->rows();
  if (piece.rows == 0) return;
  int64_t bytes_per_output = 0;
  int s = 0;
  for (const LinearPart* source : sources) {
    LLM_CHECK(source->weight.cols() == x_.k(), "{} takes {}, k = {}", source->name,
              source->weight.cols(), x_.k());
    piece.sources[s] = source;
    piece.formats[s] = format_of(source->weight.plain().dtype, x_.pairs());
    piece.x[s] = operand(piece.formats[s]);
    bytes_per_output += row_bytes_of(*source);
    ++s;
  }
  int64_t per_task = round_up(piece.rows, threads_ * kTasksPerThread) / threads_ / kTasksPerThread;
  if (x_.m() <= kFewRows) per_task = std::min(per_task, kTaskBytes / bytes_per_output);
  piece.rows_per_task = round_up(std::max<int64_t>(per_task, 1), kernels_.panel_outputs);
  piece.num_tasks = (piece.rows + piece.rows_per_task - 1) / piece.rows_per_task;
  pieces_.push_back(piece);
}

void Product::run(ThreadPool& pool) const {
  int64_t num_tasks = 0;
  for (const Piece& piece : pieces_) num_tasks += piece.num_tasks;
  pool.parallel_for(num_tasks, [&](int64_t task, int thread) {
    const Piece* piece = pieces_.data();
    while (task >= piece->num_tasks) task -= piece++->num_tasks;
    const int64_t first = task * piece->rows_per_task;
    run_task(*piece, first, std::min(piece->rows, first + piece->rows_per_task),
             x_.scratch(thread));
  });
}

int64_t Product::chunk_outputs(const Piece& piece) const {
  const int64_t unit = kernels_.panel_outputs;
  if (direct()) return kMaxChunk;
  if (x_.m() <= kFewRows) return unit;
  int64_t steps = 0;
  for (int s = 0; s < piece.num_sources; ++s) {
    steps += steps_of(*piece.sources[s], piece.formats[s]);
  }
  return std::clamp(kPanelBytes / (4 * steps) / unit * unit, unit, kMaxChunk);
}

/// Outputs [first, last) of a piece for all rows of x, chunk by chunk.
void Product::run_task(const Piece& piece, int64_t first, int64_t last, std::byte* scratch) const {
  float* out = reinterpret_cast<float*>(scratch);
  uint32_t* panels = reinterpret_cast<uint32_t*>(scratch + kMaxSources * kMaxTileRows * kMaxChunk *
                                                               static_cast<int64_t>(sizeof(float)));
  const int64_t chunk = chunk_outputs(piece);
  for (int64_t begin = first; begin < last; begin += chunk) {
    const int64_t outputs = std::min(chunk, last - begin);
    const uint32_t* panels_of[kMaxSources] = {};
    uint32_t* next = panels;
    for (int s = 0; s < piece.num_sources && !direct(); ++s) {
      panels_of[s] = next;
      kernels_.make_panels[static_cast<int>(piece.formats[s])](
          next, weight_rows(piece, s, begin, outputs));
      next +=
          round_up(outputs, kernels_.panel_outputs) * steps_of(*piece.sources[s], piece.formats[s]);
    }
    for (int64_t tile = 0; tile < x_.num_tiles(); ++tile) {
      for (int s = 0; s < piece.num_sources; ++s) {
        multiply(piece, s, begin, outputs, tile, panels_of[s], out + s * kMaxTileRows * kMaxChunk);
      }
      finish(piece, begin, outputs, tile, out);
    }
  }
}

/// out[rows of the tile][kMaxChunk] of one source, without bias.
void Product::multiply(const Piece& piece, int source, int64_t first, int64_t outputs, int64_t tile,
                       const uint32_t* panels, float* out) const {
  const int64_t begin = x_.tile_begin(tile);
  const size_t rows = static_cast<size_t>(x_.tile_begin(tile + 1) - begin);
  const Operand& x = piece.x[source];
  const uint32_t* words = x.words + begin * x.steps;
  const WeightFormat format = piece.formats[source];
  const WeightRows w = weight_rows(piece, source, first, outputs);
  if (direct()) {
    kernels_.direct[static_cast<int>(format)][rows - 1](out, kMaxChunk, w, words);
    return;
  }
  const bool dot = format == WeightFormat::kBF16Pairs;
  const PanelTile kernel = (dot ? kernels_.panel_dot : kernels_.panel_fma)[rows - 1];
  const bool fetch = x_.m() <= kFewRows && tile == 0;
  kernel(out, kMaxChunk, panels, round_up(outputs, kernels_.panel_outputs), words,
         steps_of(*piece.sources[source], format),
         fetch ? w.data + outputs * w.row_bytes : nullptr);
}

/// Bias, and the results' way into y.
void Product::finish(const Piece& piece, int64_t first, int64_t outputs, int64_t tile,
                     float* out) const {
  for (int64_t row = x_.tile_begin(tile); row < x_.tile_begin(tile + 1); ++row, out += kMaxChunk) {
    for (int s = 0; s < piece.num_sources; ++s) {
      const float* bias = piece.sources[s]->bias;
      if (bias == nullptr) continue;
      float* values = out + s * kMaxTileRows * kMaxChunk;
      for (int64_t j = 0; j < outputs; ++j) values[j] += bias[first + j];
    }
    float* to = y_ + row * ldy_ + piece.column + first;
    switch (epilogue_) {
      case Epilogue::kStore:
        std::copy_n(out, outputs, to);
        break;
      case Epilogue::kAdd:
        for (int64_t j = 0; j < outputs; ++j) to[j] += out[j];
        break;
      case Epilogue::kSiluMul:
        kernels_.silu_mul(to, out, out + kMaxTileRows * kMaxChunk, outputs);
        break;
    }
  }
}

}  // namespace

void PackedRows::pack(ThreadPool& pool, const MatmulKernels& kernels, const float* x, int64_t m,
                      int64_t k, ActDType act) {
  LLM_CHECK(m > 0 && k > 0, "m = {}, k = {}", m, k);
  m_ = m;
  k_ = k;
  pairs_ = act == ActDType::kBF16 && kernels.has_dot;
  steps_ = pairs_ ? (k + 1) / 2 : round_up(k, 2);
  num_tiles_ = (m + kernels.tile_rows - 1) / kernels.tile_rows;
  const int64_t bytes = m * steps_ * 4;
  if (words_.size() < bytes) words_ = Buffer(bytes);
  const int64_t panel_bytes =
      std::max(kPanelBytes, kMaxSources * kernels.panel_outputs * round_up(k, 2) * 4);
  const int64_t out_bytes = kMaxSources * kMaxTileRows * kMaxChunk * 4;
  scratch_bytes_ = std::max(scratch_bytes_, round_up(panel_bytes + out_bytes, 4096));
  if (scratch_.size() < pool.num_threads() * scratch_bytes_) {
    scratch_ = Buffer(pool.num_threads() * scratch_bytes_);
  }
  const PackTile pack_tile = pairs_                   ? kernels.pack_pairs
                             : act == ActDType::kBF16 ? kernels.pack_rounded
                                                      : kernels.pack_floats;
  const auto task = [&](int64_t t, int) {
    const int64_t begin = tile_begin(t);
    pack_tile(words() + begin * steps_, x + begin * k, k, tile_begin(t + 1) - begin);
  };
  if (m * steps_ <= kPackAlone) {
    for (int64_t t = 0; t < num_tiles_; ++t) task(t, 0);
  } else {
    pool.parallel_for(num_tiles_, task);
  }
}

void matmul(ThreadPool& pool, const MatmulKernels& kernels, float* y, int64_t ldy,
            const PackedRows& x, const Linear& w, Epilogue epilogue) {
  LLM_CHECK(w.k == x.k(), "{}: k = {}, x has {}", w.name, w.k, x.k());
  Product product(kernels, y, ldy, x, epilogue, pool.num_threads());
  if (epilogue == Epilogue::kSiluMul) {
    LLM_CHECK(w.parts.size() == 2 && w.parts[0].rows() == w.parts[1].rows(), "{}", w.name);
    product.add({&w.parts[0], &w.parts[1]}, 0);
  } else {
    int64_t column = 0;
    for (const LinearPart& part : w.parts) {
      product.add({&part}, column);
      column += part.rows();
    }
  }
  product.run(pool);
}

}  // namespace llm
