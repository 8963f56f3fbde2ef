// The CUDA runtime's functions for streams and events.
#include "cuda/emu/device.h"

using llm::emu::device;
using llm::emu::Moment;

namespace {

cudaError_t create_stream(cudaStream_t* out, bool waits_for_default) {
  *out = device().create_stream(waits_for_default);
  return cudaSuccess;
}

/// Event handles are only compared with null: a destroyed one is the caller's bug.
cudaError_t create_event(cudaEvent_t* out) {
  *out = new CUevent_st;
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t handle) {
  CUstream_st* const stream = device().stream_of(handle);
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  auto moment = std::make_shared<Moment>();
  moment->stream = stream;
  event->moment = moment;
  return device().submit(handle, {"event", [moment] {
                                    moment->time = std::chrono::steady_clock::now();
                                    moment->done = true;
                                  }});
}

}  // namespace

// ---- Streams ----

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return device().call("cudaStreamCreate", [&] { return create_stream(out, true); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return device().call("cudaStreamCreateWithFlags",
                       [&] { return create_stream(out, (flags & cudaStreamNonBlocking) == 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  return device().call("cudaStreamCreateWithPriority",
                       [&] { return create_stream(out, (flags & cudaStreamNonBlocking) == 0); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return device().call_release("cudaStreamDestroy", [&] {
    return device().destroy_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return device().call("cudaStreamSynchronize", [&]() -> cudaError_t {
    if (const cudaError_t error = device().refuse_in_capture(); error != cudaSuccess) return error;
    CUstream_st* const stream = device().stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    device().wait_for(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return device().call("cudaStreamQuery", [&]() -> cudaError_t {
    CUstream_st* const stream = device().stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->queue.empty()) return cudaSuccess;
    device().run_one(*stream);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return device().call("cudaStreamWaitEvent", [&]() -> cudaError_t {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->moment == nullptr) return cudaSuccess;
    return device().submit(stream,
                           {"wait", [moment = event->moment] { device().finish(*moment); }});
  });
}

cudaError_t cudaDeviceSynchronize() {
  return device().call("cudaDeviceSynchronize", [&]() -> cudaError_t {
    if (const cudaError_t error = device().refuse_in_capture(); error != cudaSuccess) return error;
    device().wait_for_all();
    return cudaSuccess;
  });
}

// ---- Events ----

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return device().call("cudaEventCreate", [&] { return create_event(out); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  return device().call("cudaEventCreateWithFlags", [&] { return create_event(out); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return device().call_release("cudaEventDestroy", [&]() -> cudaError_t {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return device().call("cudaEventRecord", [&] { return record(event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return device().call("cudaEventSynchronize", [&]() -> cudaError_t {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = device().refuse_in_capture(); error != cudaSuccess) return error;
    if (event->moment != nullptr) {
      device().finish(*event->moment);
      // Unless it was destroyed meanwhile.
      CUstream_st* const stream = device().stream_of(event->moment->stream);
      if (stream != nullptr) stream->ends_with_launch = false;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return device().call("cudaEventQuery", [&]() -> cudaError_t {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->moment == nullptr || event->moment->done) return cudaSuccess;
    device().run_one(*event->moment->stream);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return device().call("cudaEventElapsedTime", [&]() -> cudaError_t {
    if (start == nullptr || end == nullptr || !start->moment || !end->moment) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!start->moment->done || !end->moment->done) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(end->moment->time - start->moment->time).count();
    return cudaSuccess;
  });
}
