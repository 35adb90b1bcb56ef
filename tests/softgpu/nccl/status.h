// What NCCL says about errors: the text of ncclGetLastError, and warnings under NCCL_DEBUG.
#ifndef SOFTGPU_NCCL_STATUS_H_
#define SOFTGPU_NCCL_STATUS_H_

namespace softgpu {

// Keeps the text for ncclGetLastError and prints it to stderr if NCCL_DEBUG asks for warnings.
__attribute__((format(printf, 1, 2))) void Warn(const char* format, ...);
// The newest text of the process, as a copy of the calling thread's: its next call overwrites it.
const char* LastError();

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_STATUS_H_
