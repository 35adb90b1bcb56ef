#include "analyzer/recording/packed_calls.h"

#include <zstd.h>

#include <algorithm>
#include <new>

#include "core/nodes/bytes.h"
#include "core/nodes/call_code.h"

namespace ncclwatch::analyzer {
namespace {

constexpr int kLevel = 1;  // of zstd

}  // namespace

PackedCalls::PackedCalls(const std::vector<reader::Call>& calls, const std::vector<std::uint32_t>& order) {
  std::string frame;
  for (std::size_t begin = 0; begin < order.size(); begin += kSlice) {
    const std::size_t end = std::min(order.size(), begin + kSlice);
    nodes::CallMemory memory;
    nodes::Writer to;
    for (std::size_t i = begin; i < end; ++i) memory.Write(calls[order[i]], &to);
    frame.resize(ZSTD_compressBound(to.size()));
    const std::size_t size = ZSTD_compress(frame.data(), frame.size(), to.bytes().data(), to.size(), kLevel);
    if (ZSTD_isError(size)) throw std::bad_alloc();
    slices_.push_back({end - begin, to.size(), frame.substr(0, size)});
  }
}

std::vector<reader::Call> PackedCalls::TakeSlice() {
  if (slices_.empty()) return {};
  const Slice& slice = slices_.front();
  std::string bytes(slice.bytes, '\0');
  ZSTD_decompress(bytes.data(), bytes.size(), slice.packed.data(), slice.packed.size());
  nodes::CallMemory memory;
  nodes::Reader from(bytes);
  std::vector<reader::Call> calls;
  calls.reserve(slice.calls);
  for (std::size_t i = 0; i < slice.calls; ++i) calls.push_back(memory.Read(&from));
  slices_.pop_front();
  return calls;
}

}  // namespace ncclwatch::analyzer
