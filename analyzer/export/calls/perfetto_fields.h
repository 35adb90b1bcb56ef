// Numbers of the fields that are written of Perfetto's messages (its protos/perfetto/trace).
#pragma once

#include <cstdint>

namespace ncclwatch::analyzer::exporting::perfetto {

using Field = std::uint32_t;

namespace trace {
inline constexpr Field kPacket = 1;
}
namespace packet {
inline constexpr Field kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12,
                       kSequenceFlags = 13, kTimestampClockId = 58, kDefaults = 59, kTrackDescriptor = 60;
inline constexpr std::uint64_t kIncrementalStateCleared = 1, kNeedsIncrementalState = 2;
}  // namespace packet
namespace clock {
inline constexpr Field kClocks = 1, kId = 1, kTimestamp = 2;
inline constexpr std::uint64_t kRealtime = 1, kBoottime = 6, kFirstOfSequence = 64;
}  // namespace clock
namespace track {
inline constexpr Field kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8;
inline constexpr Field kPid = 1, kProcessName = 6, kUnitName = 6;
}  // namespace track
namespace event {
inline constexpr Field kCategoryIid = 3, kAnnotation = 4, kType = 9, kNameIid = 10, kTrack = 11, kCounterValue = 12,
                       kCounterTrack = 31, kDoubleCounterTrack = 45, kDoubleCounterValue = 46, kFlow = 47;
inline constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
}  // namespace event
namespace annotation {
inline constexpr Field kNameIid = 1, kBool = 2, kUint = 3, kInt = 4, kDouble = 5, kPointer = 7, kTextIid = 17;
}
namespace interned {
inline constexpr Field kCategory = 1, kEventName = 2, kAnnotationName = 3, kText = 29;
inline constexpr Field kIid = 1, kString = 2;
}  // namespace interned

}  // namespace ncclwatch::analyzer::exporting::perfetto
