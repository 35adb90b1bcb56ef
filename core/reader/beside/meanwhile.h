// What ranks did while the others waited for them, and what they and some others do at random times: samples that the
// leader of a node had taken from outside once it suspected a straggler, in the run directory. Line by line, a keyword
// first; unknown keywords are passed over. Nothing here trusts a byte of the file, and everything is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"
#include "core/reader/stacks.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

inline constexpr char kMeanwhileFile[] = "meanwhile.txt";

enum class Doing : std::uint8_t {
  kOther,
  kInput,       // a data loader, or reading a file or a pipe
  kCheckpoint,  // writing one, or a file
  kFileSystem,  // another call on files: open, stat, close
  kGpu,         // waiting for its own GPU
  kRunning,     // on a processor, or ready for one
  kLock,
  kNetwork,
  kPaging,   // waiting for a page of memory
  kAsleep,   // it asked to sleep
  kStopped,  // by a signal or a debugger
  kCall,     // in another call of MPI or NCCL
};
std::string_view Name(Doing doing);  // "input", ...: in the file

struct MeanwhileSample {
  std::uint64_t wait = 0;  // of the others, counted from 0: which one it was taken in
  Doing doing = Doing::kOther;
  std::string words;               // "in read(5: /data/0017.bin; fuse.gcs, mounted on /data)"; may be empty
  std::vector<std::string> where;  // as ProcessStacks::where
};

// One process. Times are of its calling thread, summed over the waits of the others.
struct Meanwhile {
  ProcessStacks who;           // without state and where; at_ns: of the last sample
  std::int64_t waited_ns = 0;  // by the others
  std::int64_t run_ns = 0;
  std::int64_t queued_ns = 0;     // ready to run, and no processor was free
  std::int64_t throttled_ns = 0;  // its control group, by its limit on processors
  std::uint64_t major_faults = 0;
  std::uint64_t written = 0;  // bytes, to files on disks
  std::vector<MeanwhileSample> samples;
  std::vector<MeanwhileSample> at_random;  // evenly over the time, whoever waits: all have wait 0
};

// None if it is no such file.
std::optional<std::vector<Meanwhile>> ParseMeanwhile(std::string_view text);
// ParseMeanwhile gives back what was parsed and formatted once.
std::string Format(const std::vector<Meanwhile>& all);

// Empty: there is none.
std::vector<Meanwhile> ReadMeanwhile(const descriptors::Directory& directory);
// Of the directories that the boxes lie in.
std::vector<Meanwhile> ReadMeanwhile(const std::vector<BoxImage>& boxes);

}  // namespace ncclwatch::reader
