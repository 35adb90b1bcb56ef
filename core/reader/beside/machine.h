// What went wrong with a machine while a job ran on it: error counters that rose, links and clocks that fell, lines of
// the kernel's log. A separate program looks now and then (`ncclwatch doctor --counters`) and leaves one file a machine
// in the run directory. Line by line, a keyword first; unknown keywords are passed over. Nothing here trusts a byte of
// the file, and everything is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

// Instants are CLOCK_REALTIME: the kernel's log and other machines have no other clock in common.
struct MachineEvent {
  std::int64_t since_ns = 0;  // it was not so then; 0: it was so when first looked at
  std::int64_t seen_ns = 0;   // it was so then
  std::string gpu;            // place on the bus, "0000:3B:00.0"; empty: of the whole machine
  std::string text;           // "mlx5_0 port 1: symbol_error rose by 120 to 4211"
};

// A figure that grows by one with each error, and a state that is a word ("4: ACTIVE").
struct MachineCounter {
  std::string name;
  std::int64_t value = 0;
};
struct MachineState {
  std::string name, value;
};

struct MachineSample {
  std::string host;
  std::int64_t first_ns = 0, last_ns = 0;  // looks
  std::vector<MachineEvent> events;        // by seen_ns
  std::vector<std::string> unseen;         // what could not be read, and why
  std::vector<MachineCounter> counters;    // of the last look
  std::vector<MachineState> states;        // likewise
};

inline constexpr std::size_t kMostMachineEvents = 500;  // the newest
std::string MachineFile(std::string_view host);         // its name in the run directory

std::optional<MachineSample> ParseMachine(std::string_view text);
// Without counters and states it is short: for other nodes.
std::string Format(const MachineSample& look, bool with_figures);

std::optional<MachineSample> ReadMachine(const descriptors::Directory& directory, const std::string& file);
// All that lie in it.
std::vector<MachineSample> ReadMachines(const descriptors::Directory& directory);
// Of the directories that the boxes lie in.
std::vector<MachineSample> ReadMachines(const std::vector<BoxImage>& boxes);

}  // namespace ncclwatch::reader
