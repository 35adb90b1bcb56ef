// A trace of torch's profiler that anybody wrote: any bytes at all, read, aligned with itself and made into a box.
#include <cstdint>
#include <string_view>
#include <utility>

#include "analyzer/import/kineto/align.h"
#include "analyzer/import/kineto/process.h"
#include "tests/fuzz/scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ncclwatch::analyzer::import;
  const auto [first, second] = ncclwatch::testing::Halves(data, size);
  kineto::Window one = kineto::ParseWindow(first, "rank0.json");
  kineto::Window other = kineto::ParseWindow(second, "rank1.json");
  other.trace.rank = one.trace.rank == 1 ? 0 : 1;
  kineto::Align(0, {&one, &other});
  for (kineto::Window* const window : {&one, &other}) Finish(std::move(window->trace));
  return 0;
}
