// Memory, registered buffers and windows. softgpu gains nothing from registration; it keeps account of it.
#include <cstdint>
#include <vector>

#include "driver.h"
#include "group.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

using softgpu::ApiCall;
using softgpu::CommCheck;
using softgpu::Warn;

namespace {

constexpr uint64_t kRegistrationMagic = 0x7265676973746572ULL;

// What a handle of ncclCommRegister or an ncclWindow_t points to.
struct Registration {
  uint64_t magic;
  ncclComm_t comm;
  void* address;
  size_t size;
};

Registration* Find(const void* handle) {
  auto* registration = static_cast<Registration*>(const_cast<void*>(handle));
  return registration && registration->magic == kRegistrationMagic ? registration : nullptr;
}

ncclResult_t Deregister(ncclComm_t comm, const void* handle) {
  const ncclResult_t result = CommCheck(comm, "ncclCommDeregister", "comm");
  if (result != ncclSuccess || !handle) return result;
  Registration* registration = Find(handle);
  if (!registration || registration->comm != comm) {
    Warn("Deregister NCCL : unknown handle %p", handle);
    return ncclInvalidUsage;
  }
  registration->magic = 0;
  delete registration;
  return ncclSuccess;
}

// A window is made by all ranks together.
ncclResult_t RegisterWindow(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* window) {
  ncclResult_t result = CommCheck(comm, "ncclCommWindowRegister", "comm");
  if (result == ncclSuccess) result = softgpu::PointerCheck(window, "ncclCommWindowRegister", "win");
  if (result == ncclSuccess) result = softgpu::EnsureReady(comm);
  if (result != ncclSuccess) return result;
  *window = nullptr;
  if (!buff || size == 0) return ncclSuccess;
  const uint64_t exchange = comm->exchanges++;
  return softgpu::GroupRun(comm, [=]() -> ncclResult_t {
    std::vector<uint64_t> sizes(comm->nranks);
    const uint64_t mine = size;
    const ncclResult_t done = softgpu::ExchangeHosts(comm, exchange, &mine, sizes.data(), sizeof mine);
    if (done != ncclSuccess) return done;
    *window = reinterpret_cast<ncclWindow_t>(new Registration{kRegistrationMagic, comm, buff, size});
    return ncclSuccess;
  });
}

}  // namespace

SOFTGPU_API(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size)) {
  ApiCall call(__func__);
  call.Extra("size", static_cast<int64_t>(size));
  const softgpu::Driver* driver = softgpu::GetDriver();
  int device = 0;
  if (!driver || !ptr || size == 0 || !softgpu::CurrentDevice(&device)) return call.Done(ncclUnhandledCudaError);
  const softgpu::ScopedContext context(softgpu::PrimaryContext(device));
  CUdeviceptr memory = 0;
  if (driver->memory_alloc(&memory, size) != CUDA_SUCCESS) return call.Done(ncclUnhandledCudaError);
  *ptr = reinterpret_cast<void*>(memory);
  return call.Done(ncclSuccess);
}

SOFTGPU_API(ncclResult_t, ncclMemFree, (void* ptr)) {
  ApiCall call(__func__);
  if (!ptr) return call.Done(ncclSuccess);
  const softgpu::Driver* driver = softgpu::GetDriver();
  int device = 0;
  if (!driver || !softgpu::CurrentDevice(&device)) return call.Done(ncclUnhandledCudaError);
  const softgpu::ScopedContext context(softgpu::PrimaryContext(device));
  const CUresult result = driver->memory_free(reinterpret_cast<CUdeviceptr>(ptr));
  return call.Done(result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError);
}

SOFTGPU_API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("size", static_cast<int64_t>(size));
  ncclResult_t result = CommCheck(comm, "ncclCommRegister", "comm");
  if (result == ncclSuccess) result = softgpu::PointerCheck(handle, "ncclCommRegister", "handle");
  if (result == ncclSuccess && size == 0) {
    Warn("ncclRegister : size argument is 0");
    result = ncclInvalidArgument;
  }
  if (result == ncclSuccess) *handle = new Registration{kRegistrationMagic, comm, buff, size};
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Deregister(comm, handle));
}

SOFTGPU_API(ncclResult_t, ncclCommWindowRegister,
            (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("size", static_cast<int64_t>(size)).Extra("flags", winFlags).Enter();
  softgpu::GroupStart();
  const ncclResult_t result = RegisterWindow(comm, buff, size, win);
  softgpu::GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  return call.Done(end != ncclSuccess ? end : result);
}

SOFTGPU_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(win ? Deregister(comm, win) : ncclSuccess);
}

SOFTGPU_API(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  ApiCall call(__func__);
  call.Comm(comm);
  ncclResult_t result = CommCheck(comm, "ncclWinGetUserPtr", "comm");
  if (result == ncclSuccess) result = softgpu::PointerCheck(outUserPtr, "ncclWinGetUserPtr", "outUserPtr");
  if (result != ncclSuccess) return call.Done(result);
  const Registration* registration = Find(win);
  if (!registration) return call.Done(ncclInvalidArgument);
  *outUserPtr = registration->address;
  return call.Done(ncclSuccess);
}
