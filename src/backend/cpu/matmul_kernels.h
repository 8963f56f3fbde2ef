// Matrix-product kernels of one instruction set, behind one table. Raw pointers; matmul.cpp checks
// shapes, cuts the work into tasks and owns the memory.
//
// Everything is made of steps along k. A step takes one 32-bit word of each row of x: a float, or
// a pair of BF16 values for the dot instruction. Its weights are one vector with a word per
// output. An accumulator lane belongs to one output and takes its steps in ascending order.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"
#include "quant/packed_matrix.h"

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

/// Codes of packed weights and what they are multiplied as: floats, or pairs of BF16.
constexpr int code_format(CodeType type, bool pairs) {
  return 2 * static_cast<int>(type) + (pairs ? 1 : 0);
}
inline constexpr int kNumCodeFormats = 6;

/// Some panels of a packed matrix (quant/packed_matrix.h).
struct PackedPanels {
  const uint32_t* codes;  // [panels][words][16]
  const float* scales;    // [panels][groups][16]
  const uint8_t* zeros;   // [panels][groups][16], or null: `zero`
  int32_t zero;
  int64_t panels;
  int64_t words;
  int64_t groups;
  int64_t words_per_group;
};

/// out[i][j] as DirectTile has it, of all outputs of the panels, those that fill them up included.
using DirectPacked = void (*)(float* out, int64_t out_stride, const PackedPanels& w,
                              const uint32_t* x);

/// Panels as MakePanels has them, of `outputs` (a multiple of panel_outputs) weights without their
/// scales; zeros past the last panel.
using MakeCodePanels = void (*)(uint32_t* panels, const PackedPanels& w, int64_t outputs);

/// The product from those panels: groups of a row are summed apart, scaled and added in order.
using ScaledTile = void (*)(float* out, int64_t out_stride, const uint32_t* panels, int64_t outputs,
                            const uint32_t* x, int64_t steps_per_word, const PackedPanels& w);

/// x[num_rows][k] as a tile [steps][num_rows]; `to` is written to its end and not past it.
using PackTile = void (*)(uint32_t* to, const float* x, int64_t k, int64_t num_rows);

struct MatmulKernels {
  int panel_outputs;      // outputs that the panel kernel computes at once
  int tile_rows;          // rows of x that it takes at once, at most
  int direct_rows;        // most rows of x for which weights are read straight from the rows
  bool has_dot;           // BF16 weights and activations use kBF16Pairs
  PackTile pack_floats;   // steps = k rounded up to kColumnUnit
  PackTile pack_rounded;  // the same, values rounded to BF16
  PackTile pack_pairs;    // rounded pairs: half as many steps
  MakePanels make_panels[kNumWeightFormats];
  DirectTile direct[kNumWeightFormats][kMaxTileRows];  // [format][rows of x - 1]
  PanelTile panel_fma[kMaxTileRows];                   // [rows of x - 1]
  PanelTile panel_dot[kMaxTileRows];
  MakeCodePanels make_code_panels[kNumCodeFormats];
  DirectPacked direct_packed[kNumCodeFormats][kMaxTileRows];
  ScaledTile scaled_fma[kMaxTileRows];
  ScaledTile scaled_dot[kMaxTileRows];
  void (*silu_mul)(float* y, const float* gate, const float* up, int64_t n);
};

/// The kernels of an instruction set that this build has.
const MatmulKernels& matmul_kernels(Isa isa);

}  // namespace llm
