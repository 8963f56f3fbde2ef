#include "backend/samples.h"

namespace llm {

void HostSamples::sample(SampleTicket ticket, ConstTensor logits, std::span<const SampleRow> rows,
                         ThreadPool& pool) {
  assign(ticket, rows.size());
  Slot& slot = slots_[slot_of(ticket)];
  const int64_t width = logits.shape[1];
  pool.parallel_for(std::ssize(rows), [&](int64_t i, int) {
    const size_t at = static_cast<size_t>(i);
    const SampleRow& row = rows[at];
    const std::span own(logits.as<float>() + row.logits_row * width, static_cast<size_t>(width));
    slot.ids[at] = sample_row(own, row);
    if (row.num_logprobs && slot.ids[at].fault == LogitFault::kNone) {
      slot.logprobs[at] = logprobs_of(own, slot.ids[at].id, *row.num_logprobs);
    }
  });
}

void HostSamples::assign(SampleTicket ticket, size_t n) {
  Slot& slot = slots_[slot_of(ticket)];
  slot.ids.assign(n, {});
  slot.logprobs.assign(n, {});
}

}  // namespace llm
