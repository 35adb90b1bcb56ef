// errno as the application left it, or as NCCL did: what we do beside its calls must not show in it.
#pragma once

#include <cerrno>

namespace ncclwatch::shim {

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_;
};

}  // namespace ncclwatch::shim
