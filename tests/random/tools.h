// What an actor needs beside NCCL: ends on errors, ids through files, children, and numbers from numbers.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <string>

namespace random_program {

// Ends the program with status 99.
[[noreturn]] void Die(const std::string& why);
void Check(ncclResult_t result, const char* what);
void Check(cudaError_t result, const char* what);
std::uint64_t Scramble(std::uint64_t x);
// Whoever makes it leaves it in the job's folder under this name; the others wait for it.
ncclUniqueId SharedId(const std::string& name, bool make);
// A child that has ended well when this returns: 0 _exit, 1 exec, 2 vfork and exec, 3 a call of NCCL's.
void Child(int how);

}  // namespace random_program

#define NCCL(call) ::random_program::Check((call), #call)
#define CUDA(call) ::random_program::Check((call), #call)
