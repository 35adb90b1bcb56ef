// What dlsym answers for names of ours.
#pragma once

namespace ncclwatch::shim::resolve {

// For names that begin with "nccl".
void* Answer(void* handle, const char* name);
// For names that begin with "cuM" or "cuG". kLeaveIt: the C library shall answer, and see the caller as its own.
void* AnswerCuda(void* handle, const char* name, const void* caller);

}  // namespace ncclwatch::shim::resolve
