// Chakra's execution traces by anybody: any bytes at all, as the traces of two ranks, put into boxes.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/import/chakra/traces.h"
#include "scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ncclwatch;
  const auto [first, second] = testing::Halves(data, size);
  const std::vector<std::string> files = {testing::WriteScratch("job.0.et", first),
                                          testing::WriteScratch("job.1.et", second)};
  analyzer::import::Imported imported;
  analyzer::import::chakra::ReadTraces(
      files,
      [](analyzer::import::Trace trace) {
        const std::size_t calls = trace.calls.size();
        testing::Require(analyzer::import::Finish(std::move(trace)).calls.size() == calls);
      },
      &imported, [](std::size_t) {});
  return 0;
}
