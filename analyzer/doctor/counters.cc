#include "analyzer/doctor/counters.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/doctor/checks/gpu.h"
#include "analyzer/doctor/checks/kernel_log.h"
#include "analyzer/doctor/checks/machine.h"
#include "analyzer/doctor/checks/words.h"
#include "analyzer/files/input_file.h"
#include "core/reader/beside/machine.h"
#include "watchdog/act/files.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::doctor {
namespace {

using reader::MachineSample;

// What a machine counts of its own errors, and states that should stay as they are: NVML, InfiniBand and RoCE, network
// cards, memory controllers, heat, TCP, and the kernel's log. All that a user may read.

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

// Of /proc/net/snmp: no errors by themselves, their share is.
inline constexpr char kSegmentsSent[] = "TCP segments sent", kSegmentsAgain[] = "TCP segments sent again";

// Of a port; those that rise with mere load or congestion are left out.
constexpr std::string_view kPortErrors[] = {"symbol_error",
                                            "link_error_recovery",
                                            "link_downed",
                                            "port_rcv_errors",
                                            "port_rcv_remote_physical_errors",
                                            "port_xmit_discards",
                                            "local_link_integrity_errors",
                                            "excessive_buffer_overrun_errors"};
constexpr std::string_view kPortRetries[] = {"local_ack_timeout_err", "packet_seq_err",   "out_of_sequence",
                                             "rnr_nak_retry_err",     "roce_adp_retrans", "implied_nak_seq_err"};
constexpr std::string_view kCardErrors[] = {"rx_errors",       "tx_errors",         "rx_crc_errors",
                                            "rx_frame_errors", "tx_carrier_errors", "rx_missed_errors"};

void Count(const Machine& machine, const std::string& path, std::string name, Figures* figures) {
  if (const auto value = machine.Number(path))
    figures->counters.push_back({std::move(name), static_cast<std::int64_t>(*value)});
}

void ReadPorts(const Machine& machine, Figures* figures) {
  for (const std::string& device : machine.List("/sys/class/infiniband"))
    for (const std::string& port : machine.List("/sys/class/infiniband/" + device + "/ports")) {
      const std::string folder = "/sys/class/infiniband/" + device + "/ports/" + port + "/";
      const std::string name = fmt::format("{} port {}: ", device, port);
      for (const std::string_view error : kPortErrors)
        Count(machine, folder + "counters/" + std::string(error), name + std::string(error), figures);
      for (const std::string_view retry : kPortRetries)
        Count(machine, folder + "hw_counters/" + std::string(retry), name + std::string(retry), figures);
      const std::string state = machine.Read(folder + "state").value_or("");
      if (!state.empty()) figures->states.push_back({name + "state", state, state.find("ACTIVE") == std::string::npos});
      if (const auto rate = machine.Read(folder + "rate")) figures->states.push_back({name + "rate", *rate, false});
    }
}

void ReadCards(const Machine& machine, Figures* figures) {
  for (const std::string& card : machine.List("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + card + "/";
    if (!machine.Exists(folder + "device")) continue;  // no hardware behind it
    for (const std::string_view error : kCardErrors)
      Count(machine, folder + "statistics/" + std::string(error), fmt::format("{}: {}", card, error), figures);
    Count(machine, folder + "carrier_down_count", card + ": losses of the link", figures);
    if (const auto speed = machine.Number(folder + "speed"); speed && *speed > 0)
      figures->states.push_back({card + ": speed", fmt::format("{:.0f} Mbit/s", *speed), false});
  }
}

void ReadMemory(const Machine& machine, Figures* figures) {
  for (const std::string& controller : machine.List("/sys/devices/system/edac/mc")) {
    const std::string folder = "/sys/devices/system/edac/mc/" + controller + "/";
    Count(machine, folder + "ce_count", controller + ": corrected errors of memory", figures);
    Count(machine, folder + "ue_count", controller + ": uncorrected errors of memory", figures);
  }
  std::int64_t throttled = 0;
  bool any = false;
  for (const std::string& cpu : machine.List("/sys/devices/system/cpu"))
    if (const auto count = machine.Number("/sys/devices/system/cpu/" + cpu + "/thermal_throttle/core_throttle_count"))
      throttled += static_cast<std::int64_t>(*count), any = true;
  if (any) figures->counters.push_back({"processors: slowed by heat", throttled});
  if (const auto text = machine.Read("/proc/vmstat"))
    for (const std::string& line : Split(*text, "\n"))
      if (line.starts_with("oom_kill "))
        figures->counters.push_back({"processes killed for memory", std::atoll(line.c_str() + 9)});
}

// Two lines "Tcp: names", "Tcp: values".
void ReadTcp(const Machine& machine, Figures* figures) {
  const auto text = machine.Read("/proc/net/snmp");
  if (!text) return;
  std::vector<std::string> names;
  for (const std::string& line : Split(*text, "\n")) {
    if (!line.starts_with("Tcp:")) continue;
    const std::vector<std::string> words = Split(line, " ");
    if (names.empty()) {
      names = words;
      continue;
    }
    for (std::size_t i = 1; i < std::min(names.size(), words.size()); ++i) {
      if (names[i] == "OutSegs") figures->counters.push_back({kSegmentsSent, std::atoll(words[i].c_str())});
      if (names[i] == "RetransSegs") figures->counters.push_back({kSegmentsAgain, std::atoll(words[i].c_str())});
    }
  }
}

void ReadGpus(Figures* figures) {
  const GpuSample& look = LookAtGpus();
  if (!look.gpus) return;
  for (const Gpu& gpu : look.gpus->all) {
    const std::string name = "GPU " + gpu.pci + ": ";
    const auto count = [&](const char* what, std::uint64_t value) {
      figures->counters.push_back({name + what, static_cast<std::int64_t>(value)});
    };
    count("uncorrected ECC errors", gpu.uncorrected);
    count("corrected ECC errors", gpu.corrected);
    count("errors of NVLink", gpu.link_errors);
    count("replays of PCIe", gpu.pcie_replays);
    const std::string by = SlowedBy(gpu);
    figures->states.push_back({name + "clocks", by.empty() ? "as asked for" : "held down by " + by, !by.empty()});
    figures->states.push_back({name + "NVLink links down", std::to_string(gpu.links_down), gpu.links_down > 0});
    if (gpu.width > 0)
      figures->states.push_back(
          {name + "PCIe", fmt::format("x{} of x{}", gpu.width, gpu.width_most), gpu.width < gpu.width_most});
    if (gpu.row_remap_failed) figures->states.push_back({name + "a memory row", "could not be replaced", true});
  }
}

std::int64_t Clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// What CLOCK_MONOTONIC is ahead of the kernel's own clock in the time namespace of a container: "monotonic 3000 0".
std::int64_t TimeNamespace_ns() {
  analyzer::InputFile offsets("/proc/self/timens_offsets");
  std::string clock;
  for (std::int64_t s = 0, ns = 0; offsets >> clock >> s >> ns;)
    if (clock == "monotonic") return s * 1'000'000'000 + ns;
  return 0;
}

// "3,1204,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, ...": microseconds since the boot.
void ReadLog(const Machine& machine, std::int64_t now_ns, Figures* figures) {
  std::string why;
  const auto log = KernelLog(machine, &why);
  if (!log) return figures->unseen.push_back("the kernel's log (" + why + ")");
  const std::int64_t boot_ns = now_ns - Clock(CLOCK_MONOTONIC) + TimeNamespace_ns();
  for (const std::string& line : Split(*log, "\n")) {
    if (TroubleIn(line).empty()) continue;
    const std::size_t semicolon = line.find(';');
    const std::vector<std::string> head = Split(line.substr(0, semicolon), ",");
    if (semicolon == std::string::npos || head.size() < 3) continue;
    figures->log.push_back({boot_ns + std::atoll(head[2].c_str()) * 1000, line.substr(semicolon + 1)});
  }
}

Figures ReadFigures(const Machine& machine, std::int64_t now_ns) {
  Figures figures;
  ReadPorts(machine, &figures);
  ReadCards(machine, &figures);
  ReadMemory(machine, &figures);
  ReadTcp(machine, &figures);
  ReadGpus(&figures);
  ReadLog(machine, now_ns, &figures);
  return figures;
}

// What has changed from one look at a machine to the next. Pure.

// Adds events to *look and takes over the figures. The first look (last_ns 0) tells of bad states alone, and of the
// last hour of the log; of processes that were killed for memory of the last minute only: what hit others before a job
// began says nothing about it, while a broken device stays one.
void TakeLook(const Figures& figures, std::int64_t now_ns, reader::MachineSample* look);

constexpr std::int64_t kLogBefore_ns = 3'600'000'000'000;
constexpr std::int64_t kKillsBefore_ns = 60'000'000'000;
constexpr std::size_t kMostLines = 50;  // of the log, from one look to the next
constexpr std::int64_t kFewestAgain = 100;
constexpr double kMuchAgain = 0.01;  // of the segments

// "GPU 0000:3B:00.0: ..." is of that place on the bus.
std::string GpuOf(const std::string& name) {
  constexpr std::string_view kGpu = "GPU ";
  if (!name.starts_with(kGpu)) return {};
  const std::size_t end = name.find(": ");
  return end == std::string::npos ? "" : name.substr(kGpu.size(), end - kGpu.size());
}

// "NVRM: Xid (PCI:0000:3b:00): 79, ...".
std::string GpuOfLog(const std::string& line) {
  constexpr std::string_view kPlace = "(PCI:";
  const std::size_t begin = line.find(kPlace), end = line.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string place = line.substr(begin + kPlace.size(), end - begin - kPlace.size());
  return place.find('.') == std::string::npos ? place + ".0" : place;
}

class Comparison {
 public:
  Comparison(std::int64_t now_ns, MachineSample* look) : now_ns_(now_ns), look_(look) {
    for (const auto& counter : look->counters) before_[counter.name] = counter.value;
    for (const auto& state : look->states) was_[state.name] = state.value;
  }

  void Counters(const std::vector<reader::MachineCounter>& counters) {
    std::int64_t sent = 0, again = 0;
    for (const auto& [name, value] : counters) {
      const auto before = before_.find(name);
      const std::int64_t rise = before == before_.end() ? 0 : value - before->second;
      if (name == kSegmentsSent) sent = rise;
      if (name == kSegmentsAgain) again = rise;
      if (rise <= 0 || name == kSegmentsSent || name == kSegmentsAgain) continue;
      Add(look_->last_ns, now_ns_, GpuOf(name), fmt::format("{} rose by {} to {}", name, rise, value));
    }
    if (again >= kFewestAgain && static_cast<double>(again) >= kMuchAgain * static_cast<double>(sent))
      Add(look_->last_ns, now_ns_, "",
          fmt::format("TCP sent {:.1f} % of its segments again ({} of {})",
                      100.0 * static_cast<double>(again) / static_cast<double>(std::max<std::int64_t>(1, sent)), again,
                      sent));
  }

  void States(const std::vector<State>& states) {
    for (const auto& [name, value, bad] : states) {
      const auto was = was_.find(name);
      if (was == was_.end() && bad)
        Add(look_->last_ns, now_ns_, GpuOf(name), fmt::format("{}: {}", name, value));
      else if (was != was_.end() && was->second != value)
        Add(look_->last_ns, now_ns_, GpuOf(name), fmt::format("{}: {}, was {}", name, value, was->second));
    }
  }

  void Log(const std::vector<Logged>& log) {
    const auto after_ns = [&](const std::string& text) {
      if (look_->last_ns != 0) return look_->last_ns;
      return now_ns_ - (TroubleIn(text) == kKilledForMemory ? kKillsBefore_ns : kLogBefore_ns);
    };
    std::size_t lines = 0;
    for (const auto& [at_ns, text] : log)
      if (at_ns > after_ns(text) && lines++ < kMostLines) Add(at_ns, at_ns, GpuOfLog(text), "kernel log: " + text);
  }

 private:
  void Add(std::int64_t since_ns, std::int64_t seen_ns, std::string gpu, std::string text) {
    look_->events.push_back({since_ns, seen_ns, std::move(gpu), std::move(text)});
  }

  std::int64_t now_ns_;
  MachineSample* look_;
  std::map<std::string, std::int64_t> before_;
  std::map<std::string, std::string> was_;
};

void TakeLook(const Figures& figures, std::int64_t now_ns, MachineSample* look) {
  Comparison comparison(now_ns, look);
  comparison.Counters(figures.counters);
  comparison.States(figures.states);
  comparison.Log(figures.log);
  std::stable_sort(look->events.begin(), look->events.end(),
                   [](const auto& a, const auto& b) { return a.seen_ns < b.seen_ns; });
  if (look->first_ns == 0) look->first_ns = now_ns;
  look->last_ns = now_ns;
  look->counters = figures.counters;
  look->states.clear();
  for (const State& state : figures.states) look->states.push_back({state.name, state.value});
  look->unseen = figures.unseen;
}

}  // namespace

std::string SaveCounters(const Machine& machine, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const descriptors::Directory directory = descriptors::Directory::Named(folder);
  if (!directory) return directory.reason();
  reader::MachineSample look = reader::ReadMachine(directory, name).value_or(reader::MachineSample());
  look.host = rundir::HostName();
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t now_ns = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  TakeLook(ReadFigures(machine, now_ns), now_ns, &look);
  return act::WriteFile(directory, name, reader::Format(look, /*with_figures=*/true));
}

}  // namespace ncclwatch::doctor
