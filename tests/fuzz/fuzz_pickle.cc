// Pickles that somebody else wrote: any bytes at all, read as dumps of torch's flight recorder.
#include "analyzer/import/pickle.h"
#include "tests/fuzz/dump_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (ncclwatch::analyzer::import::LooksLikePickle(bytes)) ncclwatch::testing::DiagnoseDump(bytes);
  return 0;
}
