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

/// One weight and how it is multiplied.
struct Source {
  const LinearPart* part = nullptr;
  WeightFormat format = {};  // of a plain weight
  int code_format = 0;       // of a packed one
  Operand x;
  int64_t steps = 0;  // of a weight row
};

/// Some outputs of a product: rows [0, rows) of one weight, or of the gate and the up weight.
struct Piece {
  Source sources[kMaxSources];
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

/// Panels of a packed matrix that begin with output `first` and hold `outputs`.
PackedPanels panels_of(const PackedMatrix& matrix, int64_t first, int64_t outputs) {
  const PackedShape& shape = matrix.shape;
  const int64_t panel = first / kPanelOutputs;
  const int64_t words = shape.num_words();
  const int64_t groups = shape.num_groups();
  const int64_t scales = panel * groups * kPanelOutputs;
  return {matrix.codes + panel * words * kPanelOutputs,
          matrix.scales + scales,
          matrix.zeros == nullptr ? nullptr : matrix.zeros + scales,
          matrix.zero,
          round_up(outputs, kPanelOutputs) / kPanelOutputs,
          words,
          groups,
          round_up(shape.group_size, kColumnUnit) / columns_per_word(shape.type)};
}

/// One product under way; what its tasks share.
class Product {
 public:
  Product(ThreadPool& pool, const MatmulKernels& kernels, float* y, int64_t ldy,
          const PackedRows& x, Epilogue epilogue)
      : pool_(pool), kernels_(kernels), y_(y), ldy_(ldy), x_(x), epilogue_(epilogue) {}

  void add(std::initializer_list<const LinearPart*> sources, int64_t column);
  void run() const;

 private:
  Source source_of(const LinearPart& part);
  Operand operand(WeightFormat format);
  Operand ordered_operand(const int32_t* input_order);
  int64_t chunk_outputs(const Piece& piece) const;
  void make_panels(uint32_t* to, const Piece& piece, int source, int64_t first,
                   int64_t outputs) const;
  void multiply_packed(const Source& from, int64_t first, int64_t outputs, size_t rows,
                       const uint32_t* words, const uint32_t* panels, float* out) const;
  void run_task(const Piece& piece, int64_t first, int64_t last, std::byte* scratch) const;
  void multiply(const Piece& piece, int source, int64_t first, int64_t outputs, int64_t tile,
                const uint32_t* panels, float* out) const;
  void finish(const Piece& piece, int64_t first, int64_t outputs, int64_t tile, float* out) const;

  /// Tasks and chunks begin at multiples of it.
  int64_t output_unit() const { return std::max<int64_t>(kernels_.panel_outputs, kPanelOutputs); }
  bool direct() const { return x_.m() <= kernels_.direct_rows; }
  static WeightRows weight_rows(const Piece& piece, int source, int64_t first, int64_t outputs) {
    const LinearPart& part = *piece.sources[source].part;
    const int64_t row_bytes = part.weight.row_bytes();
    return {reinterpret_cast<const char*>(part.weight.plain().data) + first * row_bytes, row_bytes,
            outputs};
  }

  ThreadPool& pool_;
  const MatmulKernels& kernels_;
  float* y_;
  int64_t ldy_;
  const PackedRows& x_;
  Epilogue epilogue_;
  std::vector<Piece> pieces_;
  Buffer widened_;  // the pairs of x as floats, for weights that aren't BF16
  /// x with its channels in the order of a weight's columns.
  struct Ordered {
    const int32_t* input_order;
    Buffer words;
  };
  std::vector<Ordered> ordered_;
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

/// x with its channels in this order, made once for all weights that share it.
Operand Product::ordered_operand(const int32_t* input_order) {
  for (const Ordered& ordered : ordered_) {
    if (ordered.input_order == input_order) {
      return {reinterpret_cast<const uint32_t*>(ordered.words.data()), x_.steps()};
    }
  }
  Buffer words(x_.m() * x_.steps() * 4);
  uint32_t* to = reinterpret_cast<uint32_t*>(words.data());
  const int64_t k = x_.k();
  const auto reorder = [&](int64_t tile, int) {
    const int64_t rows = x_.tile_begin(tile + 1) - x_.tile_begin(tile);
    const uint32_t* from = x_.tile(tile);
    uint32_t* out = to + x_.tile_begin(tile) * x_.steps();
    for (int64_t j = 0; j < k; ++j) {
      const int64_t channel = input_order[j];
      for (int64_t i = 0; i < rows; ++i) {
        if (!x_.pairs()) {
          out[j * rows + i] = from[channel * rows + i];
          continue;
        }
        const uint32_t half = from[channel / 2 * rows + i] >> channel % 2 * 16 & 0xffff;
        out[j / 2 * rows + i] |= half << j % 2 * 16;
      }
    }
  };
  if (x_.m() * k <= kPackAlone) {
    for (int64_t tile = 0; tile < x_.num_tiles(); ++tile) reorder(tile, 0);
  } else {
    pool_.parallel_for(x_.num_tiles(), reorder);
  }
  ordered_.push_back({input_order, std::move(words)});
  return {to, x_.steps()};
}

Source Product::source_of(const LinearPart& part) {
  LLM_CHECK(part.weight.cols() == x_.k(), "{} takes {}, k = {}", part.name, part.weight.cols(),
            x_.k());
  Source source;
  source.part = &part;
  if (part.weight.is_packed()) {
    const PackedMatrix& matrix = part.weight.packed();
    source.code_format = code_format(matrix.shape.type, x_.pairs());
    source.x = matrix.input_order == nullptr ? Operand{x_.tile(0), x_.steps()}
                                             : ordered_operand(matrix.input_order);
    source.steps = matrix.shape.padded_k() / (x_.pairs() ? 2 : 1);
  } else {
    source.format = format_of(part.weight.plain().dtype, x_.pairs());
    source.x = operand(source.format);
    source.steps = round_up(part.weight.row_bytes(), 4) / 4 * (is_widened(source.format) ? 2 : 1);
  }
  return source;
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
    piece.sources[s++] = source_of(*source);
    bytes_per_output += source->weight.row_bytes();
  }
  const int64_t threads = pool_.num_threads();
  int64_t per_task = round_up(piece.rows, threads * kTasksPerThread) / threads / kTasksPerThread;
  if (x_.m() <= kFewRows) per_task = std::min(per_task, kTaskBytes / bytes_per_output);
  piece.rows_per_task = round_up(std::max<int64_t>(per_task, 1), output_unit());
  piece.num_tasks = (piece.rows + piece.rows_per_task - 1) / piece.rows_per_task;
  pieces_.push_back(piece);
}

void Product::run() const {
  int64_t num_tasks = 0;
  for (const Piece& piece : pieces_) num_tasks += piece.num_tasks;
  pool_.parallel_for(num_tasks, [&](int64_t task, int thread) {
    const Piece* piece = pieces_.data();
    while (task >= piece->num_tasks) task -= piece++->num_tasks;
    const int64_t first = task * piece->rows_per_task;
    run_task(*piece, first, std::min(piece->rows, first + piece->rows_per_task),
             x_.scratch(thread));
  });
}

int64_t Product::chunk_outputs(const Piece& piece) const {
  const int64_t unit = output_unit();
  if (direct()) return kMaxChunk;
  if (x_.m() <= kFewRows) return unit;
  int64_t steps = 0;
  for (int s = 0; s < piece.num_sources; ++s) steps += piece.sources[s].steps;
  return std::clamp(kPanelBytes / (4 * steps) / unit * unit, unit, kMaxChunk);
}

/// Outputs [first, last) of a piece for all rows of x, chunk by chunk.
void Product::run_task(const Piece& piece, int64_t first, int64_t last, std::byte* scratch) const {
  float* out = reinterpret_cast<float*>(scratch);
  uint32_t* scratch_panels = reinterpret_cast<uint32_t*>(
      scratch + kMaxSources * kMaxTileRows * kMaxChunk * static_cast<int64_t>(sizeof(float)));
  const int64_t chunk = chunk_outputs(piece);
  for (int64_t begin = first; begin < last; begin += chunk) {
    const int64_t outputs = std::min(chunk, last - begin);
    const uint32_t* panels[kMaxSources] = {};
    uint32_t* next = scratch_panels;
    for (int s = 0; s < piece.num_sources && !direct(); ++s) {
      make_panels(next, piece, s, begin, outputs);
      panels[s] = next;
      next += round_up(outputs, kernels_.panel_outputs) * piece.sources[s].steps;
    }
    for (int64_t tile = 0; tile < x_.num_tiles(); ++tile) {
      for (int s = 0; s < piece.num_sources; ++s) {
        multiply(piece, s, begin, outputs, tile, panels[s], out + s * kMaxTileRows * kMaxChunk);
      }
      finish(piece, begin, outputs, tile, out);
    }
  }
}

void Product::make_panels(uint32_t* to, const Piece& piece, int source, int64_t first,
                          int64_t outputs) const {
  const Source& from = piece.sources[source];
  if (from.part->weight.is_packed()) {
    kernels_.make_code_panels[from.code_format](
        to, panels_of(from.part->weight.packed(), first, outputs),
        round_up(outputs, kernels_.panel_outputs));
  } else {
    kernels_.make_panels[static_cast<int>(from.format)](to,
                                                        weight_rows(piece, source, first, outputs));
  }
}

/// out[rows of the tile][kMaxChunk] of one source, without bias.
void Product::multiply(const Piece& piece, int source, int64_t first, int64_t outputs, int64_t tile,
                       const uint32_t* panels, float* out) const {
  const int64_t begin = x_.tile_begin(tile);
  const size_t rows = static_cast<size_t>(x_.tile_begin(tile + 1) - begin);
  const Source& from = piece.sources[source];
  const uint32_t* words = from.x.words + begin * from.x.steps;
  if (from.part->weight.is_packed()) {
    multiply_packed(from, first, outputs, rows, words, panels, out);
    return;
  }
  const WeightFormat format = from.format;
  const WeightRows w = weight_rows(piece, source, first, outputs);
  if (direct()) {
    kernels_.direct[static_cast<int>(format)][rows - 1](out, kMaxChunk, w, words);
    return;
  }
  const bool dot = format == WeightFormat::kBF16Pairs;
  const PanelTile kernel = (dot ? kernels_.panel_dot : kernels_.panel_fma)[rows - 1];
  const bool fetch = x_.m() <= kFewRows && tile == 0;
  kernel(out, kMaxChunk, panels, round_up(outputs, kernels_.panel_outputs), words, from.steps,
         fetch ? w.data + outputs * w.row_bytes : nullptr);
}

void Product::multiply_packed(const Source& from, int64_t first, int64_t outputs, size_t rows,
                              const uint32_t* words, const uint32_t* panels, float* out) const {
  const PackedMatrix& matrix = from.part->weight.packed();
  const PackedPanels w = panels_of(matrix, first, outputs);
  if (direct()) {
    kernels_.direct_packed[from.code_format][rows - 1](out, kMaxChunk, w, words);
    return;
  }
  const ScaledTile kernel = (x_.pairs() ? kernels_.scaled_dot : kernels_.scaled_fma)[rows - 1];
  kernel(out, kMaxChunk, panels, round_up(outputs, kernels_.panel_outputs), words,
         from.steps / w.words, w);
}

/// Bias, and the results' way into y.
void Product::finish(const Piece& piece, int64_t first, int64_t outputs, int64_t tile,
                     float* out) const {
  for (int64_t row = x_.tile_begin(tile); row < x_.tile_begin(tile + 1); ++row, out += kMaxChunk) {
    for (int s = 0; s < piece.num_sources; ++s) {
      const float* bias = piece.sources[s].part->bias;
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
  steps_ = round_up(k, kColumnUnit) / (pairs_ ? 2 : 1);
  num_tiles_ = (m + kernels.tile_rows - 1) / kernels.tile_rows;
  const int64_t bytes = m * steps_ * 4;
  if (words_.size() < bytes) words_ = Buffer(bytes);
  const int64_t panel_bytes =
      std::max(kPanelBytes, kMaxSources * std::max<int64_t>(kernels.panel_outputs, kPanelOutputs) *
                                round_up(k, kColumnUnit) * 4);
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
  Product product(pool, kernels, y, ldy, x, epilogue);
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
  product.run();
}

}  // namespace llm
