#include "analyzer/top/look.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/jobs/verdict.h"
#include "analyzer/top/compare.h"
#include "analyzer/trace/row.h"
#include "core/reader/glance.h"
#include "core/reader/load.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::top {
namespace {

constexpr std::uint64_t kMostNewCalls = 1u << 16;  // read in one look, of all ranks
constexpr std::uint64_t kLeastNewCalls = 32;       // ... of each

std::uint64_t BytesOf(const reader::Call& call) {
  return functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
}

bool MovesData(functions::Function function) {
  const functions::FunctionInfo* const info = functions::Find(function);
  return info && (info->family == functions::Family::kCollective || info->family == functions::Family::kRooted ||
                  info->family == functions::Family::kPointToPoint);
}

// Where the ring has lost the record: what the table keeps of the last collective.
reader::Call FromTable(const reader::Communicator& communicator) {
  reader::Call call;
  call.function = communicator.last.function;
  call.count = communicator.last.count;
  call.dtype = communicator.last.dtype;
  call.entered_ns = communicator.last.entered_ns;
  call.returned_ns = communicator.returned < communicator.entered ? 0 : call.entered_ns;
  call.result = 0;
  return call;
}

double Since(std::int64_t from_ns, std::int64_t to_ns) { return std::max(0.0, InSeconds(to_ns - from_ns)); }

void SetJob(const reader::MappedBox& box, Job* job) {
  const format::Identity& identity = box.header().identity;
  job->name = reader::Text(identity.job);
  job->attempt = reader::Load(identity.attempt);
  const std::int32_t world_size = reader::Load(identity.world_size);
  if (world_size <= static_cast<std::int32_t>(reader::kMaxCommunicatorSize))
    job->expected = std::max(job->expected, world_size);
}

}  // namespace

void Sampler::FindBoxes(Job* job) {
  const std::vector<std::string> files = BoxFiles(directory_);
  std::error_code error;
  job->removed = files.empty() && !std::filesystem::exists(directory_, error);
  for (const std::string& file : files) {
    if (boxes_.contains(file)) continue;
    auto opened = reader::MappedBox::Open(file);
    if (const auto* failure = std::get_if<reader::Failure>(&opened)) {
      job->unreadable.push_back(failure->path + ": " + failure->reason);
      continue;
    }
    Box box;
    box.mapped = std::move(std::get<std::unique_ptr<reader::MappedBox>>(opened));
    box.boot_id = reader::Text(box.mapped->header().identity.boot_id);
    boxes_.emplace(file, std::move(box));
  }
  // With its directory a job has ended, and what it left in memory is its last state; a single box was removed.
  if (!job->removed)
    std::erase_if(boxes_, [&](const auto& box) { return !std::binary_search(files.begin(), files.end(), box.first); });
  std::erase_if(boxes_, [&](const auto& box) {
    if (job->removed || box.second.mapped->StillWhole()) return false;
    job->unreadable.push_back(box.first + ": cut short");
    return true;
  });
}

// A living node's clock is read; on that of others it is the moment of their last sign of life.
void Sampler::SetClocks() {
  struct Clock {
    std::size_t number = 0;
    std::int64_t now_ns = 0;
  };
  std::map<std::string_view, Clock> clocks;
  for (auto& [path, box] : boxes_) {
    Clock& clock = clocks.try_emplace(box.boot_id, Clock{clocks.size(), 0}).first->second;
    const bool lives_here = box.alive && box.boot_id == ThisPlace().boot_id;
    clock.now_ns =
        std::max(clock.now_ns, lives_here ? MonotonicNow() : reader::Load(box.mapped->header().heartbeat_ns));
  }
  for (auto& [path, box] : boxes_) {
    box.clock = clocks[box.boot_id].number;
    box.now_ns = clocks[box.boot_id].now_ns;
  }
}

void Sampler::ReadNewCalls(Box* box, std::uint64_t most) {
  const std::uint64_t head = box->mapped->head();
  const std::uint64_t made = head - std::min(head, box->head);
  const std::uint64_t read = std::min({made, most, box->mapped->ring_size()});
  box->head = head;
  if (read == 0) return;
  const double each_stands_for = box->looked_at ? static_cast<double>(made) / static_cast<double>(read) : 0;
  reader::Call call;
  for (std::uint64_t slot = head - read; slot < head; ++slot) {
    if (!box->mapped->Read(slot, &call) || call.communicator == format::kNoCommunicator) continue;
    Entry& entry = box->entries[call.communicator];
    if (entry.generation != call.generation) entry = Entry{call.generation};
    entry.newest = slot;
    if (!MovesData(call.function)) continue;
    const double bytes = static_cast<double>(BytesOf(call)) * each_stands_for;
    entry.bytes += bytes;
    box->bytes += bytes;
  }
}

Process Sampler::ProcessOf(Box* box, double elapsed_s) {
  const format::Header& header = box->mapped->header();
  Process process;
  process.rank = reader::Load(header.identity.rank);
  process.pid = reader::Load(header.identity.pid);
  if (header.version >= 2) process.host = box->mapped->StringAt(reader::Load(header.node));
  if (process.host.empty()) process.host = reader::Text(header.identity.host);
  process.alive = box->alive;
  process.calls = box->head;
  if (box->looked_at && box->alive)
    process.rates = Rates{static_cast<double>(box->head - std::min(box->head, box->before.calls)) / elapsed_s,
                          (box->bytes - box->before.bytes) / elapsed_s};
  box->before = {box->head, box->bytes};
  return process;
}

Member Sampler::MemberOf(Box* box, const reader::Communicator& communicator, double elapsed_s) {
  Member member;
  member.communicator = communicator.id;
  member.rank = communicator.rank;
  member.size = communicator.size;
  member.label = communicator.label;
  member.comparable = (communicator.flags & (format::kCommIdentityUnknown | format::kCommGrown |
                                             format::kCommRankUnknown | format::kCommForeign)) == 0;
  member.clock = box->clock;
  member.collectives = communicator.entered;
  if (communicator.entered > 0) member.position = communicator.entered - 1;
  if (communicator.entered > 0) member.called_ns = communicator.last.entered_ns;

  Entry& entry = box->entries[communicator.index];
  if (entry.generation != communicator.generation) entry = Entry{communicator.generation};
  if (communicator.entered > 0 && (entry.newest == UINT64_MAX || entry.newest < communicator.last.slot))
    entry.newest = communicator.last.slot;
  reader::Call call;
  const bool read = entry.newest != UINT64_MAX && box->mapped->Read(entry.newest, &call) &&
                    call.communicator == communicator.index && call.generation == communicator.generation;
  if (!read) call = FromTable(communicator);
  if (read || communicator.entered > 0) {
    member.op = functions::OpName(call.function);
    member.state = Name(StandingOf(call, &communicator).state);
    if (MovesData(call.function)) member.bytes = BytesOf(call);
    member.since_s = Since(call.entered_ns, box->now_ns);
  }
  const std::uint64_t calls = communicator.entered + communicator.sends + communicator.receives + communicator.empties;
  if (box->looked_at && box->alive)
    member.rates = Rates{static_cast<double>(calls - std::min(calls, entry.before.calls)) / elapsed_s,
                         (entry.bytes - entry.before.bytes) / elapsed_s};
  entry.before = {calls, entry.bytes};
  return member;
}

void Sampler::AddMembers(Box* box, std::size_t process, double elapsed_s, Job* job) {
  const std::size_t before = job->members.size();
  std::uint32_t largest = 0;
  for (std::uint32_t index = 0; index < box->mapped->communicators(); ++index) {
    // Those that a living process has destroyed would only be in the way.
    const auto state = box->mapped->communicator(index).state.load(std::memory_order_acquire);
    if (box->alive && state == static_cast<std::uint32_t>(format::CommunicatorState::kDestroyed)) continue;
    const auto communicator = reader::CommunicatorNow(*box->mapped, index);
    if (!communicator) continue;
    job->members.push_back(MemberOf(box, *communicator, elapsed_s));
    job->members.back().process = process;
    if (reader::Load(box->mapped->header().identity.rank) < 0 && communicator->size > largest) {
      largest = communicator->size;
      job->processes[process].rank = static_cast<int>(communicator->rank);
    }
  }
  if (job->members.size() == before) {
    job->members.emplace_back().process = process;
    job->members.back().comparable = false;
  }
}

Job Sampler::Look() {
  Job job;
  job.directory = directory_;
  FindBoxes(&job);
  const std::int64_t now = MonotonicNow();
  const double elapsed_s = std::max(1e-3, Since(looked_ns_, now));
  looked_ns_ = now;
  for (auto& [path, box] : boxes_) {
    const format::Identity& identity = box.mapped->header().identity;
    const bool here =
        box.boot_id == ThisPlace().boot_id && reader::Load(identity.pid_namespace) == ThisPlace().pid_namespace;
    box.alive = LockHeld(path) || (here && ProcessThere(reader::Load(identity.pid), reader::Load(identity.start_time)));
    job.alive += box.alive;
  }
  SetClocks();
  const std::uint64_t most = std::max(kLeastNewCalls, kMostNewCalls / std::max<std::uint64_t>(1, boxes_.size()));
  for (auto& [path, box] : boxes_) {
    SetJob(*box.mapped, &job);
    ReadNewCalls(&box, most);
    job.processes.push_back(ProcessOf(&box, elapsed_s));
    AddMembers(&box, job.processes.size() - 1, elapsed_s, &job);
    box.looked_at = true;
  }
  job.state = HasFault(directory_) ? "fault" : job.alive > 0 ? "running" : "finished";
  Compare(&job);
  return job;
}

}  // namespace ncclwatch::analyzer::top
