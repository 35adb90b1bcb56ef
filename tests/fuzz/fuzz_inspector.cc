// Lines that NCCL Inspector, or anybody else, wrote: any bytes at all, read and put into steps.
#include "analyzer/import/inspector/table.h"

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ncclwatch::analyzer::import::inspector;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  LooksLikeLine(text);
  Recording recording;
  ReadText("input", text, &recording);
  MakeJob(recording);
  return 0;
}
