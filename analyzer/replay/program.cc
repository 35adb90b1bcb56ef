#include "analyzer/replay/program.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/replay/translate.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kMostNamed = 4;   // ranks in a message
constexpr int kMostReplayed = 1 << 18;  // of which those without a recording have a place too: a kilobyte each

absl::Status Missing(const std::vector<const ProcessRecording*>& incomplete) {
  std::string text;
  for (std::size_t i = 0; i < std::min(incomplete.size(), kMostNamed); ++i)
    text += fmt::format("{}rank {} lacks {} calls ({})", i == 0 ? "" : "; ", incomplete[i]->rank(),
                        incomplete[i]->lost_calls(), LostText(incomplete[i]->lost()));
  if (incomplete.size() > kMostNamed) text += fmt::format("; and {} more ranks", incomplete.size() - kMostNamed);
  return absl::DataLossError("cannot be replayed, since calls are missing: " + text);
}

// A damaged segment may look like another process's, and calls are missing then. The damage is what has to be said.
absl::Status DamageIn(const Recording& recording) {
  for (const ProcessRecording& process : recording.processes())
    for (const ProcessRecording::Segment& segment : process.segments())
      if (const auto read = segment.file->Read(*segment.place); !read.ok())
        return absl::DataLossError(fmt::format("{}: {}", segment.file->path(), std::string(read.status().message())));
  return absl::OkStatus();
}

std::int64_t BeganNs(const ProcessRecording& process) {
  const reader::BoxImage& box = process.process();
  if (!process.segments().empty()) {
    const format::SegmentHeader& first = process.segments().front().place->index.header;
    // One without a call says how the process ended.
    return first.calls > 0 ? first.first_ns : box.heartbeat_ns + box.realtime_minus_monotonic_ns;
  }
  return process.first_entered_ns() + box.realtime_minus_monotonic_ns;
}

// Communicators are made before the steps that use them, and freed behind.
bool MakesOrEnds(const reader::Call& call) {
  using functions::Family;
  const functions::FunctionInfo* const info = functions::Find(call.function);
  return info &&
         (info->family == Family::kCreation || info->family == Family::kLifecycle || info->family == Family::kLife);
}

}  // namespace

RecordedProgram::RecordedProgram(WhatIf what_if) : what_if_(std::move(what_if)) {}
RecordedProgram::~RecordedProgram() = default;

absl::StatusOr<std::unique_ptr<RecordedProgram>> RecordedProgram::Make(const Recording& recording, WhatIf what_if,
                                                                       const simulation::Costs& costs) {
  std::unique_ptr<RecordedProgram> made(new RecordedProgram(std::move(what_if)));
  if (const absl::Status added = made->AddProcesses(recording); !added.ok()) return added;
  if (const absl::Status added = made->AddCommunicators(); !added.ok()) return added;
  if (std::find(made->chosen_.begin(), made->chosen_.end(), true) == made->chosen_.end())
    return absl::NotFoundError("no communicator is left to be replayed");
  made->jitter = 0;
  made->details = false;
  made->costs_ = costs;
  made->costs = &made->costs_;
  return made;
}

absl::Status RecordedProgram::AddProcesses(const Recording& recording) {
  std::vector<const ProcessRecording*> all, incomplete;
  for (const ProcessRecording& process : recording.processes()) {
    if (process.end_slot() == 0) continue;
    if (!what_if_.ranks.empty() && !what_if_.ranks.contains(process.rank())) continue;
    all.push_back(&process);
    if (process.lost_calls() != 0) incomplete.push_back(&process);
  }
  if (all.empty()) return absl::NotFoundError("no recorded call");
  if (!incomplete.empty()) {
    const absl::Status damage = DamageIn(recording);
    return damage.ok() ? Missing(incomplete) : damage;
  }
  std::stable_sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
  std::map<std::string, int> hosts;
  began_ns_ = INT64_MAX;
  for (const ProcessRecording* process : all) {
    stood_still_ = stood_still_ || process->process().leader_state.verdict_at_ns != 0;
    began_ns_ = std::min(began_ns_, BeganNs(*process));
    nodes_.push_back(hosts.emplace(process->process().host, static_cast<int>(hosts.size())).first->second);
    Source& source = sources_.emplace_back();
    source.process = process;
    source.pieces = std::make_unique<PieceReader>(*process);
  }
  ranks = static_cast<int>(sources_.size());
  return AddLinks(hosts);
}

absl::Status RecordedProgram::AddLinks(const std::map<std::string, int>& hosts) {
  for (const WhatIf::Link& link : what_if_.links) {
    for (const std::string& host : {link.one, link.other})
      if (!hosts.contains(host)) return absl::NotFoundError("no rank of the recording is on host " + host);
    const int one = hosts.at(link.one), other = hosts.at(link.other);
    stretched_[{std::min(one, other), std::max(one, other)}] = 1 / link.share;
  }
  return absl::OkStatus();
}

double RecordedProgram::Stretch(int comm, int from, int to) const {
  if (stretched_.empty()) return 1;
  if (from < 0) return stretches_[static_cast<std::size_t>(comm)];
  const int one = node_of(from), other = node_of(to);
  const auto found = stretched_.find({std::min(one, other), std::max(one, other)});
  return found == stretched_.end() ? 1 : found->second;
}

bool RecordedProgram::IsChosen(std::size_t comm) const {
  const std::vector<int>& members = comms[comm].members;
  const bool whole = std::find(members.begin(), members.end(), -1) == members.end();
  if (!what_if_.ranks.empty() && !whole) return false;
  const std::vector<std::string>& wanted = what_if_.communicators;
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
           return comms[comm].label == name || diagnosis::Hex16(comm_ids_[comm]).starts_with(name);
         });
}

bool RecordedProgram::IsOfWantedSteps(int rank, std::uint64_t slot) const {
  if (!what_if_.calls) return true;
  const auto range = what_if_.calls->find(rank);
  return range != what_if_.calls->end() && slot >= range->second.first && slot < range->second.second;
}

bool RecordedProgram::LeavesOut(int rank, const reader::Call& call, std::uint64_t id) const {
  if (what_if_.dropped.contains({rank, call.slot})) return true;
  if (!lost_.empty())
    if (const auto lost = lost_.find({rank, id}); lost != lost_.end() && call.slot >= lost->second) return true;
  if (!IsOfWantedSteps(rank, call.slot) && !MakesOrEnds(call)) return true;
  return (!what_if_.ranks.empty() || !what_if_.communicators.empty()) && id != 0 && comm_of(id) < 0;
}

// Members that no process of the recording is get a rank of their own, which does nothing.
absl::Status RecordedProgram::AddCommunicators() {
  has_.resize(sources_.size());
  std::vector<std::uint64_t> split_from;  // of NCCL's, by communicator: the parent's id; 0: none
  for (int rank = 0; rank < ranks; ++rank) {
    const ProcessRecording* const process = sources_[static_cast<std::size_t>(rank)].process;
    if (!process) continue;
    for (const IndexedCommunicator& one : process->communicators()) {
      if (one.size == 0 || (one.flags & format::kCommRankUnknown) != 0) continue;  // it never came to be
      const auto [found, made] = comm_of_.emplace(one.id, static_cast<int>(comms.size()));
      if (made) {
        simulation::Comm& comm = comms.emplace_back();
        comm.members.assign(one.size, -1);
        comm.label = one.label;
        comm.ordinal = one.parent_ordinal;
        comm.color = one.color;
        comm_ids_.push_back(one.id);
        of_mpi_.push_back((one.flags & format::kCommMpi) != 0);
        split_from.push_back((one.flags & format::kCommMpi) != 0 ? 0 : one.parent);
        children_[{one.parent, one.parent_ordinal}].push_back(one.id);
      }
      std::vector<int>& members = comms[static_cast<std::size_t>(found->second)].members;
      if ((one.flags & format::kCommMpi) != 0 || one.parent != 0)
        has_[static_cast<std::size_t>(rank)].push_back(found->second);
      if (one.rank < members.size()) members[one.rank] = rank;
    }
  }
  for (std::size_t i = 0; i < comms.size(); ++i) {
    std::vector<int>& members = comms[i].members;
    chosen_.push_back(IsChosen(i));
    stretches_.push_back(StretchOf(members));
    if (!chosen_[i]) {
      members.assign(1, 0);  // nobody calls on it
      continue;
    }
    for (int& member : members) {
      if (member >= 0) continue;
      if (ranks == kMostReplayed)
        return absl::OutOfRangeError(fmt::format("its communicators have more than {} ranks in all", kMostReplayed));
      member = ranks++;
      sources_.emplace_back();
      nodes_.push_back(-1);
      has_.emplace_back();
    }
  }
  // Of a chosen parent the replay makes the child itself.
  const auto is_made = [&](int comm) {
    const std::uint64_t parent = split_from[static_cast<std::size_t>(comm)];
    return parent != 0 && comm_of(parent) >= 0;
  };
  for (std::vector<int>& has : has_)
    std::erase_if(has, [&](int comm) { return !chosen_[static_cast<std::size_t>(comm)] || is_made(comm); });
  for (std::size_t rank = 0; rank < has_.size(); ++rank)
    sources_[rank].held.insert(has_[rank].begin(), has_[rank].end());
  return absl::OkStatus();
}

// A collective is as slow as its slowest link.
double RecordedProgram::StretchOf(const std::vector<int>& members) const {
  double stretch = 1;
  const auto on = [&](int node) {
    return std::any_of(members.begin(), members.end(), [&](int rank) { return rank >= 0 && node_of(rank) == node; });
  };
  for (const auto& [nodes, factor] : stretched_)
    if (on(nodes.first) && on(nodes.second)) stretch = std::max(stretch, factor);
  return stretch;
}

int RecordedProgram::comm_of(std::uint64_t id) const {
  const auto found = comm_of_.find(id);
  return found == comm_of_.end() || !chosen_[static_cast<std::size_t>(found->second)] ? -1 : found->second;
}

bool MakesFromParent(const reader::Call& call) {
  const functions::FunctionInfo* const info = functions::Find(call.function);
  return info && info->family == functions::Family::kCreation &&
         functions::FullName(call.function).find("CommInit") == std::string_view::npos;
}

bool WasRefused(const reader::Call& call) {
  return functions::IsMpi(call.function) && call.returned_ns != 0 && call.result != 0 &&
         (call.flags & format::kTookPart) == 0;
}

int RecordedProgram::ChildOf(std::uint64_t parent, std::uint64_t ordinal, int rank) const {
  const auto children = children_.find({parent, ordinal});
  if (children == children_.end()) return -1;
  for (const std::uint64_t id : children->second) {
    const int child = comm_of(id);
    if (child >= 0 && comms[static_cast<std::size_t>(child)].RankOf(rank) >= 0) return child;
  }
  return -1;
}

std::int64_t RecordedProgram::Gap(int rank, std::int64_t recorded_ns) const {
  if (what_if_.no_gaps) return 0;
  const auto slower = what_if_.slower.find(process(rank)->rank());
  if (slower == what_if_.slower.end()) return recorded_ns;
  const double longer = static_cast<double>(recorded_ns) * (1 + slower->second);
  return static_cast<std::int64_t>(std::min(longer, static_cast<double>(simulation::kLongest)));
}

std::int64_t RecordedProgram::Begins(int rank) const {
  const Source& source = sources_[static_cast<std::size_t>(rank)];
  if (!source.process) return 0;
  const std::int64_t began = what_if_.no_gaps ? 0 : BeganNs(*source.process) - began_ns_;
  const auto delay = what_if_.delays.find(source.process->rank());
  return delay == what_if_.delays.end() ? began : simulation::Later(began, delay->second);
}

bool RecordedProgram::Next(int rank, int /*section*/, simulation::Ops* ops) const {
  Source& source = sources_[static_cast<std::size_t>(rank)];
  if (!source.process) {
    // It is never there; the others may wait for it.
    ops->push_back({.what = simulation::Do::kHang});
    return true;
  }
  while (ops->empty()) {
    if (!source.translator) {
      if (!source.pieces->Begin(&failures_)) return false;
      source.translator = std::make_unique<CallTranslator>(*this, rank, source.pieces->piece());
    }
    if (!source.translator->Translate(ops)) source.translator.reset();
  }
  return true;
}

void RecordedProgram::ReadRest() const {
  simulation::Ops ops;
  for (Source& source : sources_) {
    if (!source.translator) continue;
    while (source.translator->Translate(&ops)) ops.clear();
    source.translator.reset();
  }
}

}  // namespace ncclwatch::analyzer
