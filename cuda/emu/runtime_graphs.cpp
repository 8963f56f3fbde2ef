// The CUDA runtime's functions for graphs: the work as it was captured, with the arguments' values
// of then. One stream at a time is captured.
#include <algorithm>

#include "cuda/emu/device.h"

using llm::emu::device;
using llm::emu::Work;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return device().call("cudaStreamBeginCapture", [&]() -> cudaError_t {
    CUstream_st* const stream = device().stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (handle == nullptr) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    stream->capture = std::make_unique<CUgraph_st>();
    stream->capture_spoiled = false;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  return device().call("cudaStreamEndCapture", [&]() -> cudaError_t {
    *out = nullptr;
    CUstream_st* const stream = device().stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture == nullptr) return cudaErrorIllegalState;
    std::unique_ptr<CUgraph_st> graph = std::move(stream->capture);
    if (stream->capture_spoiled) return cudaErrorStreamCaptureInvalidated;
    *out = graph.release();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* out) {
  return device().call("cudaStreamIsCapturing", [&]() -> cudaError_t {
    const CUstream_st* const stream = device().stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *out = stream->capture == nullptr ? cudaStreamCaptureStatusNone
           : stream->capture_spoiled  ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return device().call("cudaGraphInstantiate", [&]() -> cudaError_t {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *out = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return device().call("cudaGraphExecUpdate", [&]() -> cudaError_t {
    if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    const bool same =
        std::equal(exec->nodes.begin(), exec->nodes.end(), graph->nodes.begin(), graph->nodes.end(),
                   [](const Work& a, const Work& b) { return a.name == b.name; });
    if (info != nullptr) {
      *info = {};
      info->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    }
    if (!same) return cudaErrorGraphExecUpdateFailure;
    exec->nodes = graph->nodes;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return device().call("cudaGraphLaunch", [&]() -> cudaError_t {
    if (exec == nullptr) return cudaErrorInvalidValue;
    for (const Work& node : exec->nodes) {
      const cudaError_t error = device().submit(stream, node);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* num_nodes) {
  return device().call("cudaGraphGetNodes", [&]() -> cudaError_t {
    // Only the count: the emulator's nodes have no handles.
    if (graph == nullptr || nodes != nullptr) return cudaErrorNotSupported;
    *num_nodes = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return device().call_release("cudaGraphDestroy", [&]() -> cudaError_t {
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return device().call_release("cudaGraphExecDestroy", [&]() -> cudaError_t {
    delete exec;
    return cudaSuccess;
  });
}
