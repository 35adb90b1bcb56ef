// What an OTF2 archive defines once for all its events.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <otf2/otf2.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ncclwatch::analyzer::import::otf2 {

struct Region {
  std::string name;
  bool artificial = false;  // of the measurement, not of the program
};
struct Location {
  std::string name;
  OTF2_LocationGroupRef process = 0;
};
struct Process {
  std::string name;
  OTF2_SystemTreeNodeRef node = OTF2_UNDEFINED_SYSTEM_TREE_NODE;
  std::uint32_t pid = 0;
  std::vector<OTF2_LocationRef> locations;
};
struct Group {
  OTF2_GroupType type = OTF2_GROUP_TYPE_UNKNOWN;
  OTF2_Paradigm paradigm = OTF2_PARADIGM_UNKNOWN;
  std::vector<std::uint64_t> members;
};
struct Comm {
  std::string name;
  OTF2_GroupRef group = OTF2_UNDEFINED_GROUP;
};

struct Definitions {
  std::uint64_t ticks_per_second = 1'000'000'000, first_tick = 0;
  std::int64_t realtime_ns = 0;  // of the first tick; 0: not told
  absl::flat_hash_map<OTF2_StringRef, std::string> strings;
  absl::flat_hash_map<OTF2_RegionRef, Region> regions;
  absl::flat_hash_map<OTF2_LocationRef, Location> locations;
  absl::flat_hash_map<OTF2_SystemTreeNodeRef, std::string> nodes;
  absl::flat_hash_map<OTF2_GroupRef, Group> groups;
  absl::flat_hash_map<OTF2_CommRef, Comm> comms;
  absl::flat_hash_map<OTF2_AttributeRef, std::string> attributes;
  std::map<OTF2_LocationGroupRef, Process> processes;

  std::string Text(OTF2_StringRef text) const;  // empty: it is not defined
  std::int64_t Nanoseconds(OTF2_TimeStamp ticks) const;
  int RankOf(OTF2_LocationGroupRef process) const;  // in the job
  // As the process's name says, also where not all ranks of the job are in the archive; -1: it does not.
  int RankInName(OTF2_LocationGroupRef process) const;
  // Job ranks by rank in it; empty: not told.
  std::vector<int> RanksOf(const Comm& comm) const;
};

// In the order in which the archive has them: what a definition names comes before it.
OTF2_ErrorCode ReadDefinitions(OTF2_Reader* reader, Definitions* definitions);

}  // namespace ncclwatch::analyzer::import::otf2
