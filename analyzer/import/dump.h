// One dump of torch's flight recorder, taken apart: its calls as a black box would hold them, and the process groups
// that they belong to. What only all dumps together tell (who is in a group, which number it has) is filled in by
// boxes.h.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/import/value.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::import {

struct ProcessGroup {
  std::string name, description;
  std::vector<std::int32_t> ranks;  // job ranks by rank in the group; empty if the dump does not say
  bool used = false;                // has entries
  bool unmatched = false;           // receives that name no sender, or messages before the first that is recorded
};

struct Dump {
  std::string path;
  std::string version;
  std::int32_t rank = -1;
  std::int64_t written_ns = 0;  // CLOCK_REALTIME: the file's time of modification
  std::int64_t newest_ns = 0;   // of all instants in it
  std::int64_t timeout_ns = 0;  // the longest of its entries
  std::uint64_t unknown = 0;    // entries of operations that are not known here
  // calls: `communicator` is the index of a group; chain is not set. communicators: one for each group, with what its
  // own dump tells.
  reader::BoxImage box;
  std::vector<ProcessGroup> groups;

  // The recorder still holds everything since it began.
  bool whole() const { return box.first_slot == 0; }
};

// The rank that a file's name ends in ("nccl_trace_rank_12", "rank12.json"), -1 if in none.
std::int32_t RankInName(const std::string& path);

// Reads files one after the other, with one tree for all.
class DumpReader {
 public:
  absl::StatusOr<Dump> Read(const std::string& path);

 private:
  std::string bytes_;
  Tree tree_;
};

// For the fuzzers: what Read() does with the bytes of a file.
absl::StatusOr<Dump> ParseDump(std::string_view bytes, Tree* tree);

}  // namespace ncclwatch::analyzer::import
