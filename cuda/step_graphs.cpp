#include "cuda/step_graphs.h"

namespace llm {
namespace {

struct GraphRecordDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using GraphRecord = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphRecordDeleter>;

}  // namespace

StepGraphs::Mode StepGraphs::begin(const StepKey& key, cudaStream_t stream) {
  if (is_recording_) {
    is_recording_ = false;
    cudaGraph_t unfinished = nullptr;
    cudaStreamEndCapture(stream, &unfinished);  // fails where the recording was spoiled
    const GraphRecord owner(unfinished);
    cudaGetLastError();
  }
  key_ = key;
  const auto [graph, is_new] = graphs_.try_emplace(key);
  mode_ = is_new ? Mode::kRun : graph->second ? Mode::kReplay : Mode::kRecord;
  if (mode_ == Mode::kRecord) {
    LLM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    is_recording_ = true;
  }
  return mode_;
}

void StepGraphs::end(cudaStream_t stream) {
  if (mode_ == Mode::kRun) return;
  GraphExec& graph = graphs_[key_];
  if (mode_ == Mode::kRecord) {
    is_recording_ = false;
    cudaGraph_t recorded = nullptr;
    LLM_CUDA(cudaStreamEndCapture(stream, &recorded));
    const GraphRecord owner(recorded);
    cudaGraphExec_t exec = nullptr;
    LLM_CUDA(cudaGraphInstantiate(&exec, recorded, 0));
    graph.reset(exec);
  }
  LLM_CUDA(cudaGraphLaunch(graph.get(), stream));
}

}  // namespace llm
