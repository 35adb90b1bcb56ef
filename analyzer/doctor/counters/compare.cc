#include "analyzer/doctor/counters/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace ncclwatch::doctor {
namespace {

using reader::MachineLook;

constexpr std::int64_t kLogBefore_ns = 3'600'000'000'000;
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
  Comparison(std::int64_t now_ns, MachineLook* look) : now_ns_(now_ns), look_(look) {
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
    const std::int64_t after_ns = look_->last_ns != 0 ? look_->last_ns : now_ns_ - kLogBefore_ns;
    std::size_t lines = 0;
    for (const auto& [at_ns, text] : log)
      if (at_ns > after_ns && lines++ < kMostLines) Add(at_ns, at_ns, GpuOfLog(text), "kernel log: " + text);
  }

 private:
  void Add(std::int64_t since_ns, std::int64_t seen_ns, std::string gpu, std::string text) {
    look_->events.push_back({since_ns, seen_ns, std::move(gpu), std::move(text)});
  }

  std::int64_t now_ns_;
  MachineLook* look_;
  std::map<std::string, std::int64_t> before_;
  std::map<std::string, std::string> was_;
};

}  // namespace

void TakeLook(const Figures& figures, std::int64_t now_ns, MachineLook* look) {
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

}  // namespace ncclwatch::doctor
