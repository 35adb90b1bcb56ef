// What a recording holds of the work beneath calls, as tracks of Perfetto: one for each stream of a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/files/byte_buffer.h"
#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer::exporting::perfetto {

// Of one process, by their beginnings, which are CLOCK_REALTIME. Those that cannot be read are missing: whoever reads
// the calls complains of the same segments.
reader::Operations OperationsByTime(const ProcessRecording& process);

// sequence: a number that no other one has; process: the uuid of its track. `uuids`: of tracks so far.
void WriteOperations(const reader::Operations& operations, std::uint32_t sequence, std::uint64_t process,
                     std::uint64_t* uuids, ByteBuffer* packets);

}  // namespace ncclwatch::analyzer::exporting::perfetto
