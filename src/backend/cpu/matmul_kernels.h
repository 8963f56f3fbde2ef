// Matrix-product kernels of one instruction set, behind one table. Raw pointers; matmul.cpp checks
// shapes, cuts the work into tasks and owns the memory.
//
// Everything is made of steps along k. A step takes one 32-bit word of each row of x: a float, or
// a pair of BF16 values for the dot instruction. Its weights are one vector with a word per
// output. An accumulator lane belongs to one output and takes its steps in ascending order.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"

namespace llm {

/// How weights are stored, and with it what a step is.
enum class WeightFormat {
  kF32,
  kF16,        // widened to float: two steps per 32-bit word
  kBF16,       // the same
  kBF16Pairs,  // multiplied as pairs by the dot instruction
};
inline constexpr int kNumWeightFormats = 4;

/// Most rows of x in one register tile of any instruction set.
inline constexpr int kMaxTileRows = 12;

/// Rows of one weight: row-major as the checkpoint has them, any alignment. Nothing past the last
/// byte is read.
struct WeightRows {
  const char* data;
  int64_t row_bytes;
  int64_t rows;
};

/// out[i][j] = sum over k of x[i] w[j], straight from the rows. x is a tile [steps][rows of x].
using DirectTile = void (*)(float* out, int64_t out_stride, const WeightRows& w, const uint32_t* x);

/// The same from panels, for `outputs` (a multiple of panel_outputs) of them. One cache line at
/// `prefetch` and after is fetched per vector of weights read; null for none.
using PanelTile = void (*)(float* out, int64_t out_stride, const uint32_t* panels, int64_t outputs,
                           const uint32_t* x, int64_t steps, const char* prefetch);

/// Rows as panels [rows / panel_outputs][steps][panel_outputs], the last one filled up with zeros.
using MakePanels = void (*)(uint32_t* panels, const WeightRows& w);

/// x[num_rows][k] as a tile [steps][num_rows]; `to` is written to its end and not past it.
using PackTile = void (*)(uint32_t* to, const float* x, int64_t k, int64_t num_rows);

struct MatmulKernels {
  int panel_outputs;      // outputs that the panel kernel computes at once
  int tile_rows;          // rows of x that it takes at once, at most
  int direct_rows;        // most rows of x for which weights are read straight from the rows
  bool has_dot;           // BF16 weights and activations use kBF16Pairs
  PackTile pack_floats;   // steps = k rounded up to even
  PackTile pack_rounded;  // the same, values rounded to BF16
  PackTile pack_pairs;    // rounded pairs: steps = (k + 1) / 2
  MakePanels make_panels[kNumWeightFormats];
  DirectTile direct[kNumWeightFormats][kMaxTileRows];  // [format][rows of x - 1]
  PanelTile panel_fma[kMaxTileRows];                   // [rows of x - 1]
  PanelTile panel_dot[kMaxTileRows];
  void (*silu_mul)(float* y, const float* gate, const float* up, int64_t n);
};

/// The kernels of an instruction set that this build has.
const MatmulKernels& matmul_kernels(Isa isa);

}  // namespace llm
