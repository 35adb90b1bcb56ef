#include "analyzer/import/inspector/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/import/inspector/operation.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

using Process = std::pair<std::string, std::uint32_t>;  // host and pid

struct World {
  std::map<Process, std::vector<const Member*>> members;  // of each process
  std::int32_t size = 0;
};

// The communicator of all processes, which several may be. None: there is no such one.
std::optional<World> FindWorld(const Recording& recording, std::size_t processes) {
  std::map<std::pair<std::string, std::int32_t>, World> communicators;
  for (const auto& [member, operations] : recording.operations) {
    World& one = communicators[{member.communicator, member.size}];
    one.size = member.size;
    one.members[{member.host, member.pid}].push_back(&member);
  }
  std::optional<World> best;
  for (auto& [key, one] : communicators)
    if (one.members.size() == processes && (!best || one.size > best->size)) best = std::move(one);
  return best;
}

reader::BoxImage BoxOf(const Process& process, int rank) {
  reader::BoxImage box;
  box.path = fmt::format("{}-pid{}", process.first, process.second);
  box.host = process.first;
  box.boot_id = process.first;  // stands for the node: none is told
  box.pid = process.second;
  box.rank = rank;
  box.dump = true;
  return box;
}

// As many boxes as ranks; of a process that holds several ranks one for each.
void AddRanksOfWorld(const World& world, Ranks* ranks) {
  std::vector<std::tuple<int, Process, const Member*>> all;
  bool several = false;
  for (const auto& [process, members] : world.members) {
    several = several || members.size() > 1;
    for (const Member* const member : members) all.emplace_back(member->rank, process, member);
  }
  std::sort(all.begin(), all.end());
  for (const auto& [rank, process, member] : all) {
    ranks->row_of[*member] = ranks->boxes.size();
    ranks->boxes.push_back(BoxOf(process, rank));
    ranks->boxes.back().world_size = world.size;
  }
  if (several)
    ranks->notes.push_back(
        "processes hold several ranks: only the communicator of all ranks is looked at, since nothing says which rank "
        "of "
        "a process is a member of the others");
}

void AddNumberedProcesses(const std::set<Process>& processes, Ranks* ranks) {
  int number = 0;
  for (const Process& process : processes) ranks->boxes.push_back(BoxOf(process, number++));
  ranks->notes.push_back(
      "no communicator of all processes was recorded, so job ranks are not known: processes are numbered by host and "
      "pid");
}

// Of processes that are one rank each.
void AddOtherMembers(const Recording& recording, Ranks* ranks) {
  std::map<Process, std::vector<std::size_t>> rows;
  for (std::size_t row = 0; row < ranks->boxes.size(); ++row)
    rows[{ranks->boxes[row].host, ranks->boxes[row].pid}].push_back(row);
  for (const auto& [member, operations] : recording.operations) {
    const std::vector<std::size_t>& own = rows[{member.host, member.pid}];
    if (own.size() == 1) ranks->row_of.try_emplace(member, own.front());
  }
}

// "0x7f8c496ae9f661" as a number; of other text its hash.
std::uint64_t IdentityOf(const std::string& communicator) {
  std::uint64_t number = 0;
  const std::size_t digits = communicator.starts_with("0x") ? 2 : 0;
  const char* const end = communicator.data() + communicator.size();
  const auto [stop, error] = std::from_chars(communicator.data() + digits, end, number, 16);
  if (error == std::errc() && stop == end) return number;
  for (const char letter : communicator) number = format::Mix(number, static_cast<unsigned char>(letter));
  return number;
}

void AddCommunicators(const Recording& recording, Ranks* ranks) {
  for (const auto& [member, row] : ranks->row_of) {
    reader::Communicator one;
    one.index = static_cast<std::uint32_t>(ranks->boxes[row].communicators.size());
    one.id = IdentityOf(member.communicator);
    one.rank = static_cast<std::uint32_t>(member.rank);
    one.size = static_cast<std::uint32_t>(member.size);
    one.label = member.label;
    one.state = format::CommunicatorState::kReady;
    ranks->boxes[row].communicators.push_back(std::move(one));
    reader::BoxImage& box = ranks->boxes[row];
    for (const Operation& operation : recording.operations.at(member))
      box.heartbeat_ns = std::max(box.heartbeat_ns, operation.written_ns);
  }
}

}  // namespace

Ranks FindRanks(const Recording& recording) {
  std::set<Process> processes;
  for (const auto& [member, operations] : recording.operations) processes.emplace(member.host, member.pid);
  Ranks ranks;
  if (const auto world = FindWorld(recording, processes.size()))
    AddRanksOfWorld(*world, &ranks);
  else
    AddNumberedProcesses(processes, &ranks);
  AddOtherMembers(recording, &ranks);
  AddCommunicators(recording, &ranks);
  return ranks;
}

}  // namespace ncclwatch::analyzer::import::inspector
