// What a recording holds of the work beneath calls, as tracks of Perfetto: one for each stream of a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/files/byte_buffer.h"
#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer::exporting::perfetto {

// Of one process, in order of their beginnings.
struct ProcessOperations {
  struct One {
    std::int64_t began_ns = 0, duration_ns = 0;  // CLOCK_REALTIME
    std::int64_t step = 0;
    std::uint64_t lane = 0, call = 0, bytes = 0;
    std::uint32_t name = 0;
    reader::OperationKind kind{};
  };
  std::vector<One> all;
  std::vector<std::string> names;
};

// Those that cannot be read are missing: whoever reads the calls complains of the same segments.
ProcessOperations OperationsOf(const ProcessRecording& process);

// sequence: a number that no other one has; process: the uuid of its track. `uuids`: of tracks so far.
void WriteOperations(const ProcessOperations& operations, std::uint32_t sequence, std::uint64_t process,
                     std::uint64_t* uuids, ByteBuffer* packets);

}  // namespace ncclwatch::analyzer::exporting::perfetto
