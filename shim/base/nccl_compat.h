// nccl.h of any version from 2.14 on, with the types that it lacks of 2.32. Functions need no declaration here: the
// table defines them all, and the compiler refuses a row that contradicts the header.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

#if NCCL_VERSION_CODE < 21400
#error "nccl.h of NCCL 2.14 or newer is needed to build; older libraries are served all the same"
#endif

#if NCCL_VERSION_CODE < 22200
typedef struct ncclSimInfo ncclSimInfo_t;
#endif
#if NCCL_VERSION_CODE < 22700
typedef struct ncclWindow_vidmem* ncclWindow_t;
#endif
#if NCCL_VERSION_CODE < 22900
typedef struct ncclWaitSignalDesc ncclWaitSignalDesc_t;
#endif
#if NCCL_VERSION_CODE < 22907
typedef int ncclCommMemStat_t;
#endif
#if NCCL_VERSION_CODE < 23000
typedef struct ncclParamHandle* ncclParamHandle_t;
#endif
#if NCCL_VERSION_CODE < 23100
typedef struct ncclCollConfig ncclCollConfig_t;
#endif
#if NCCL_VERSION_CODE < 23200
typedef struct ncclEncryptionConfig ncclEncryptionConfig_t;
#endif

#ifndef NCCL_SPLIT_NOCOLOR
#define NCCL_SPLIT_NOCOLOR -1
#endif

// Some headers have it as an empty macro.
#undef ncclResetDebugInit

namespace ncclwatch::shim {

// By value in the host side of nccl_device.h; the layouts are those of 2.28 to 2.32.
struct Team {
  int ranks, rank, stride;
};
struct MultimemHandle {
  void* base;
};

// The head of ncclConfig_t of every version: a field is there if `size` reaches past it.
struct ConfigView {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* name;  // 2.27: commName
};
static_assert(offsetof(ConfigView, name) == 48);
inline constexpr unsigned kConfigMagic = 0xcafebeef;  // NCCL_CONFIG_INITIALIZER's, of every version

}  // namespace ncclwatch::shim
