// nccl.h of whatever version the build found (2.18 to 2.32), its functions exported, and the names that older ones
// lack.
#ifndef SOFTGPU_NCCL_NCCL_HEADER_H_
#define SOFTGPU_NCCL_NCCL_HEADER_H_

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 22, 0)
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;
#endif

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
typedef struct ncclWindow* ncclWindow_t;
#define NCCL_SHRINK_ABORT 0x01
#endif

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 7)
#define NCCL_REVOKE_DEFAULT 0x00
#endif

// A public function: weak, with a strong alias `pncclX` at the same address, as NCCL builds them. Calls from within the
// library to such a function go through the procedure linkage table, so an interposer sees them, as with NCCL.
#define SOFTGPU_API(type, name, parameters)                                                \
  extern "C" __attribute__((visibility("default"), alias(#name))) type p##name parameters; \
  extern "C" __attribute__((visibility("default"), weak)) type name parameters

#endif  // SOFTGPU_NCCL_NCCL_HEADER_H_
