// What the leader of a node tells its hub while all is well: who is there, and how far everyone is. One message a
// second and node; only what has changed; sooner where something has stopped, died or is suspected.
//
// A session begins with a message numbered 0 that names everything; later ones speak of processes and members by the
// numbers given there. Where one is missing the hub cannot know what changed, and asks for a new session. Pure; nothing
// here trusts a byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::nodes {

inline constexpr std::uint8_t kWireVersion = 14;  // of all bodies that leaders exchange; others are refused
// 2: start marks in images of boxes that have them; else as 1.

inline constexpr std::size_t kMostProcesses = 4096;  // of one node; what is more is left out
inline constexpr std::size_t kMostMembers = 32768;   // of one node, over all its processes
inline constexpr std::size_t kMostObservations = 16384;
inline constexpr std::size_t kMostMadeOfNode = 64u << 20;  // bytes of memory, about
// Of all nodes: ten times what 16,384 ranks with 16 communicators each on 2,048 nodes take.
inline constexpr std::size_t kMostNodes = 8192;
inline constexpr std::size_t kMostMadeOfAll = 1u << 30;
inline constexpr std::size_t kMostDead = 1u << 17;
inline constexpr std::size_t kMostSuspicious = 1u << 16;  // communicators, from one look to the next

// The chain of fingerprints over the first `position` collectives. Two members that tell one for the same position can
// be compared, wherever they stand by now.
struct Check {
  std::uint64_t position = 0;
  std::uint64_t chain = 0;
  bool operator==(const Check&) const = default;
};

// One member of one communicator, as its process's box shows it now. Instants are the node's CLOCK_MONOTONIC.
struct MemberNow {
  // Facts: constant while the entry is one communicator's.
  std::uint32_t index = 0, generation = 0;  // in the box's table
  std::uint64_t id = 0, parent = 0, parent_ordinal = 0;
  std::uint32_t rank = 0, size = 0, flags = 0;
  std::int32_t color = 0;
  std::int64_t created_ns = 0;
  std::string label;
  std::string gpu;
  // Progress.
  format::CommunicatorState state{};
  std::uint64_t entered = 0, returned = 0;
  bool outstanding = false;  // launches that the GPU has not finished
  std::uint64_t creations = 0, empties = 0, sends = 0, receives = 0;
  std::int64_t last_entered_ns = 0;  // its newest collective, 0 none
  std::uint64_t chain = 0;           // over `entered`; of a member that is moving perhaps of the one after
  std::optional<Check> pace;  // of the call at the roundest position since the last look, for members that move on
  // Its newest collective, whole, for a member that has stood still in it.
  std::optional<reader::Call> last;
};

struct ProcessNow {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::int32_t rank = -1, world_size = 0, local_rank = -1, local_world_size = 0;
  std::uint32_t attempt = 0;
  std::string boot_id, host, node, job, command;
  std::uint32_t nccl_version = 0;
  std::string environment;  // reader::BoxImage::environment: said once the first communicator is made
  format::GpuMarks gpu_marks{};
  std::int64_t realtime_minus_monotonic_ns = 0;

  format::ProcessState state = format::ProcessState::kRunning;
  bool watching = true;
  std::int64_t heartbeat_ns = 0;
  std::int64_t inside_since_ns = 0;  // in a call of MPI since then; 0: in none
  reader::LastWords last_words;
  reader::Words words;
  std::uint64_t words_said = 0;                   // grows with everything that is added to either of them
  std::vector<reader::Observation> observations;  // its own, of others; only ever more
  std::vector<MemberNow> members;
};

struct NodeNow {
  std::int64_t now_ns = 0;
  std::uint64_t revision = 0;  // of the hub's last word that has come here
  std::vector<ProcessNow> processes;
  // Communicators in which calls of this node's own members differ.
  std::vector<std::uint64_t> suspicious;
};

// What a message begins with, after the version.
enum HeadBits : std::uint8_t { kBegins = 1, kSuspects = 2 };
// What is told of one process.
enum ProcessBits : std::uint8_t {
  kProcessFacts = 1,
  kSameNode = 2,      // as the process with facts before it: everything but pid, start time, ranks and command
  kProcessState = 4,  // and whether it is watched
  kWords = 8,
  kSeen = 16,  // observations
  kMembers = 32,
  kInsideCall = 64,    // of MPI, for long, or not any more
  kEnvironment = 128,  // it is said now
};
// ... of one member.
enum MemberBits : std::uint8_t {
  kMemberFacts = 1,
  kState = 2,         // other than ready
  kInside = 4,        // calls that have not returned
  kOutstanding = 8,   // launches that have not finished
  kCheckHere = 16,    // the chain over what it has entered
  kCheckBefore = 32,  // ... over less
  kSameCheck = 64,    // position and chain that this message told of the communicator before
  kMore = 128,        // MoreBits follow
};
enum MoreBits : std::uint8_t { kCounts = 1, kLastCall = 2 };

inline constexpr std::uint64_t kNoProcess = kMostProcesses;  // in the place of a process: the message is whole
inline constexpr std::int64_t kAgeUnit_ns = 10'000'000;      // of heartbeats, and of how long members have stood still
inline constexpr std::size_t kMostName = 255;
inline constexpr std::size_t kMostEnvironment = 4096;
inline constexpr std::size_t kMostCommand = 128;
inline constexpr std::uint64_t kMostIndex = 1u << 16;  // in a box's table

}  // namespace ncclwatch::nodes
