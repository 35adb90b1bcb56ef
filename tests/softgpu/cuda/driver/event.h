#pragma once

#include <cuda.h>

#include <memory>
#include <vector>

#include "tests/softgpu/cuda/driver/registry.h"
#include "tests/softgpu/cuda/driver/stream.h"

namespace softgpu {

class Capture;
class Context;
struct Node;

class Event {
 public:
  Event(Context* owner, unsigned event_flags) : context(owner), flags(event_flags) {}

  // What the event stood for at its last record; NULL before the first. Thread-safe.
  std::shared_ptr<Mark> mark() const;

  // A fresh mark, not yet complete: the event is pending from now on.
  std::shared_ptr<Mark> Rearm();

  CUevent handle() { return reinterpret_cast<CUevent>(this); }

  Context* const context;
  const unsigned flags;

  // Of the capture that recorded it last, if one did. Guarded by the captures' mutex (capture.h).
  std::shared_ptr<Capture> capture;
  std::vector<Node*> nodes;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

Registry<Event>& Events();

}  // namespace softgpu
