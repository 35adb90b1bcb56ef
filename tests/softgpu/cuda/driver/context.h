// Contexts, and which one is current in the calling thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/softgpu/cuda/driver/stream.h"

namespace softgpu {

class Context {
 public:
  Context(int device, unsigned flags);

  // All streams whose work the context still has to finish, the legacy stream first.
  std::vector<std::shared_ptr<Stream>> Streams();
  void AddStream(const std::shared_ptr<Stream>& stream);

  // Waits for all work given to any stream of the context so far.
  void Synchronize();

  // Waits, then drops streams, events and memory; the context itself stays usable.
  void Reset();

  // False where nothing changes.
  bool SetPeer(Context* peer, bool enabled);

  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
  const std::shared_ptr<Stream>& legacy() const { return legacy_; }

  const int device;
  const uint64_t id;
  std::atomic<unsigned> flags;
  std::atomic<bool> destroyed{false};

  // Held while work enters the legacy stream or one that is ordered against it, so that all see one order.
  std::mutex order;

 private:
  std::mutex mutex_;
  std::shared_ptr<Stream> legacy_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::set<Context*> peers_;
};

// NULL where none is current.
Context* CurrentContext();

// CUDA_ERROR_INVALID_CONTEXT where none is current or it has been destroyed.
CUresult NeedContext(Context** context);

// NULL for a handle that is no context.
Context* FindContext(CUcontext handle);

// All contexts of the process that are not destroyed.
std::vector<Context*> AllContexts();

}  // namespace softgpu
