// Arithmetic of NCCL's reductions. Element types and reductions are plain integers with NCCL's values, so that this
// file needs no nccl.h.
#ifndef SOFTGPU_NCCL_REDUCE_H_
#define SOFTGPU_NCCL_REDUCE_H_

#include <cstddef>
#include <cstdint>

namespace softgpu {

enum class ReductionKind : uint32_t { kSum, kProd, kMin, kMax, kPreMulSum, kSumPostDiv };

// What a rank does in a reduction. `scalar` holds the bits of one element (kPreMulSum), or the divisor (kSumPostDiv).
// If `scalar_address` is set the scalar is read there when the kernel runs.
struct Reduction {
  ReductionKind kind = ReductionKind::kSum;
  uint64_t scalar = 0;
  const void* scalar_address = nullptr;
};

constexpr int kNumDatatypes = 12;
constexpr int kNumBuiltinOps = 5;

// Bytes of one element, 0 if `datatype` is none of NCCL's.
size_t DatatypeSize(int datatype);

// Reduction for a built-in NCCL operator over `nranks` ranks. Averages of floating-point types multiply by 1/n in the
// element type before the sum, averages of integers divide after it, as NCCL does.
Reduction BuiltinReduction(int op, int datatype, int nranks);

// Copies `count` elements, applying what `reduction` does to a rank's own data first. Source and destination may be
// equal.
void CopyPrepared(void* destination, const void* source, size_t count, int datatype, const Reduction& reduction);

// destination[i] = reduction over sources[0..nsources), folded in that order; sources have been through CopyPrepared.
void Reduce(void* destination, const uint8_t* const* sources, int nsources, size_t count, int datatype,
            const Reduction& reduction);

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_REDUCE_H_
