// What a machine counts of its own errors, and states that should stay as they are: NVML, InfiniBand and RoCE, network
// cards, memory controllers, heat, TCP, and the kernel's log. All that a user may read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/doctor/checks/machine.h"
#include "watchdog/reader/beside/machine.h"

namespace ncclwatch::doctor {

struct State {
  std::string name, value;
  bool bad = false;
};
struct Logged {
  std::int64_t at_ns = 0;  // CLOCK_REALTIME
  std::string text;
};
// Names begin with what they are of: "GPU 0000:3B:00.0 ...", "mlx5_0 port 1: ...".
struct Figures {
  std::vector<reader::MachineCounter> counters;
  std::vector<State> states;
  std::vector<Logged> log;  // lines that stand for trouble
  std::vector<std::string> unseen;
};

Figures ReadFigures(const Machine& machine, std::int64_t now_ns);

// Of /proc/net/snmp: no errors by themselves, their share is.
inline constexpr char kSegmentsSent[] = "TCP segments sent", kSegmentsAgain[] = "TCP segments sent again";

}  // namespace ncclwatch::doctor
