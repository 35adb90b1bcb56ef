// Names and texts of results.
#include <cuda.h>

#include <algorithm>
#include <iterator>

namespace {

struct Error {
  int number;
  const char* name;
  const char* text;
};

constexpr Error kErrors[] = {
#define SOFTGPU_ERROR(number, driver_name, runtime_name, text) {number, driver_name, text},
#include "tests/softgpu/cuda/errors.def"
#undef SOFTGPU_ERROR
};

const Error* Find(CUresult number) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const Error& error) { return error.number == static_cast<int>(number); });
  return found == std::end(kErrors) || *found->name == 0 ? nullptr : found;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetErrorString(CUresult number, const char** text) {
  const Error* error = Find(number);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error == nullptr ? nullptr : error->text;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult number, const char** name) {
  const Error* error = Find(number);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = error == nullptr ? nullptr : error->name;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // extern "C"
