#include "analyzer/export/calls/perfetto.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/export/calls/perfetto_operations.h"
#include "analyzer/export/calls/perfetto_sequence.h"
#include "analyzer/files/output_file.h"
#include "analyzer/recording/meeting.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/functions/bandwidth.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using perfetto::Sequence;
using Argument = Sequence::Argument;
using functions::Family;

constexpr std::uint32_t kFindingsSequence = 1, kFirstProcessSequence = 2;

// Arguments of a slice, as `trace --json` calls them.
constexpr Argument kSeq{1, "seq"}, kPosition{2, "position"}, kCount{3, "count"}, kBytes{4, "bytes"}, kDtype{5, "dtype"},
    kReduction{6, "reduction"}, kRoot{7, "root"}, kPeer{8, "peer"}, kStream{9, "stream"}, kThread{10, "thread"},
    kGroup{11, "group"}, kState{12, "state"}, kPending{13, "pending"}, kResult{14, "result"}, kSite{15, "site"},
    kKernel{16, "kernel_duration_s"}, kBusbw{17, "busbw_GBps"}, kPayload{18, "payload"};
// ... of an instant for a finding.
constexpr Argument kCertainty{20, "certainty"}, kCulprits{21, "culprits"}, kSummary{22, "summary"}, kNext{23, "next"};

// Texts are told apart by what they are of and a number.
enum class TextOf : std::uint64_t { kOfDtype, kOfReduction, kOfState, kOfResult, kOfSite, kOfFinding, kOfPayload };
constexpr std::uint64_t KeyOf(TextOf what, std::uint64_t number) {
  return number * 8 + static_cast<std::uint64_t>(what);
}

std::string_view CategoryOf(Family family) {
  switch (family) {
    case Family::kCollective:
    case Family::kRooted: return "collective";
    case Family::kPointToPoint: return "message";
    case Family::kCreation:
    case Family::kLifecycle:
    case Family::kLife: return "lifecycle";
    case Family::kGroup: return "group";
    case Family::kCompletion:
    case Family::kProbe: return "wait";
    default: return "other";
  }
}

std::uint64_t FlowOf(const MeetingKey& key) {
  const auto& [communicator, position, from, to] = key;
  return format::Mix(format::Mix(communicator, position), std::uint64_t{from} << 32 | to);
}

// What NCCL's kernel or MPI's blocking call took.
std::optional<functions::Bandwidth> BandwidthIn(const Facts& facts) {
  const reader::Call& call = facts.call;
  if (!facts.communicator || !facts.bytes) return std::nullopt;
  const bool blocks =
      functions::IsMpi(call.function) && (call.flags & format::kRequest) == 0 && !facts.standing.pending;
  const double took_ns = call.kernel.clock != format::KernelClock::kNone ? static_cast<double>(call.kernel.ns)
                         : blocks                                        ? static_cast<double>(facts.duration_ns)
                                                                         : 0;
  return functions::BandwidthOf(functions::PatternOf(call.function), *facts.bytes, facts.communicator->size, took_ns);
}

std::string NameOf(const reader::Communicator* on) {
  if (!on) return "no communicator";
  const std::string id = diagnosis::Hex16(on->id).substr(0, 8);
  return on->label.empty() ? fmt::format("communicator {}", id) : fmt::format("{} ({})", Printable(on->label), id);
}

// The calls of a process on one communicator. Slices of one track must not overlap: each call goes to a lane that is
// free, and Perfetto draws lanes of one name as one track.
struct CommunicatorTracks {
  std::string name;
  using Lane = std::pair<std::int64_t, std::uint64_t>;  // when its last call ended, uuid
  std::priority_queue<Lane, std::vector<Lane>, std::greater<>> lanes;
  std::uint64_t position = 0, bandwidth = 0;  // uuids of counters, 0: none yet
};

struct ProcessTracks {
  std::optional<Sequence> sequence;
  std::uint64_t uuid = 0;
  absl::flat_hash_map<std::uint64_t, CommunicatorTracks> communicators;  // by identity, 0: none
};

class Perfetto : public CallExporter {
 public:
  Perfetto(const Source& source, std::string path, std::uint64_t most_bytes)
      : CallExporter(source), path_(std::move(path)), most_bytes_(most_bytes) {}

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    if (files_.empty() || file_.bytes() + packets_.size() >= most_bytes_)
      if (absl::Status status = NextFile(facts.time_ns); !status.ok()) return status;
    ProcessTracks& process = ProcessOf(merged.number, facts);
    CommunicatorTracks& on = TracksOf(facts, &process);
    const std::uint64_t lane = LaneFor(facts, &process, &on);
    Sequence& out = *process.sequence;
    out.Begin(facts.time_ns, perfetto::event::kBegin, lane);
    Describe(facts, &process, &on);
    if (const Site* const site = source_.sites.Of(merged))
      out.Text(kSite, KeyOf(TextOf::kOfSite, facts.call.site), [&] { return Printable(site->line); });
    out.End();
    if (facts.returned_ns) {
      out.Begin(EndOf(facts), perfetto::event::kEnd, lane);
      out.End();
    }
    return packets_.size() < kMostPending ? absl::OkStatus() : WritePending();
  }

  absl::Status Finish() override {
    if (files_.empty())
      if (absl::Status status = NextFile(0); !status.ok()) return status;
    if (absl::Status status = WriteAllOperations(); !status.ok()) return status;
    WriteFindings();
    if (absl::Status status = WritePending(); !status.ok()) return status;
    if (files_.size() > 1)
      notes_.push_back(fmt::format("{} files, one after another in time: none is longer than ui.perfetto.dev can open",
                                   files_.size()));
    return file_.Close();
  }

 private:
  static constexpr std::size_t kMostPending = 1 << 18;

  absl::Status NextFile(std::int64_t time_ns) {
    if (!files_.empty()) {
      WritePending().IgnoreError();
      if (absl::Status status = file_.Close(); !status.ok()) return status;
    }
    files_.push_back(files_.empty() ? path_ : Numbered(files_.size() + 1));
    processes_.clear();
    processes_.resize(source_.recording.processes().size());
    zero_ns_ = time_ns;
    uuids_ = 0;
    return file_.Open(files_.back());
  }
  std::string Numbered(std::size_t number) const {
    const std::size_t dot = path_.rfind('.'), slash = path_.rfind('/');
    const std::size_t at = dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path_.size() : dot;
    return fmt::format("{}-{}{}", path_.substr(0, at), number, path_.substr(at));
  }
  absl::Status WritePending() {
    absl::Status status = file_.Write(packets_.view());
    packets_.Clear();
    return status;
  }

  ProcessTracks& ProcessOf(std::size_t number, const Facts& facts) {
    return ProcessNamed(number, facts.rank, facts.box);
  }
  ProcessTracks& ProcessNamed(std::size_t number, int rank, const reader::BoxImage& box) {
    ProcessTracks& process = processes_[number];
    if (process.sequence) return process;
    process.uuid = ++uuids_;
    process.sequence.emplace(kFirstProcessSequence + static_cast<std::uint32_t>(number), zero_ns_, &packets_);
    // Pids are those of several machines: the number of the process stands for it.
    process.sequence->Process(process.uuid, number + 1,
                              fmt::format("rank {} ({}, pid {})", rank, Printable(box.host), box.pid));
    return process;
  }
  static CommunicatorTracks& TracksOf(const Facts& facts, ProcessTracks* process) {
    const auto [found, made] = process->communicators.try_emplace(facts.communicator ? facts.communicator->id : 0);
    if (made) found->second.name = NameOf(facts.communicator);
    return found->second;
  }
  static std::int64_t EndOf(const Facts& facts) { return std::max(facts.time_ns, *facts.returned_ns); }
  std::uint64_t LaneFor(const Facts& facts, ProcessTracks* process, CommunicatorTracks* on) {
    std::uint64_t lane = 0;
    if (!on->lanes.empty() && on->lanes.top().first <= facts.time_ns) {
      lane = on->lanes.top().second;
      on->lanes.pop();
    } else {
      lane = ++uuids_;
      process->sequence->Track(lane, process->uuid, on->name);
    }
    if (facts.returned_ns) on->lanes.push({EndOf(facts), lane});  // no call comes after one that has not ended
    return lane;
  }

  void Describe(const Facts& facts, ProcessTracks* process, CommunicatorTracks* on) {
    const reader::Call& call = facts.call;
    Sequence& out = *process->sequence;
    const functions::FunctionInfo* const info = functions::Find(call.function);
    const Family family = info ? info->family : Family::kQuery;
    out.Name(static_cast<std::uint64_t>(call.function),
             info ? functions::OpName(call.function) : OpText(call.function));
    out.Category(static_cast<std::uint64_t>(family), CategoryOf(family));
    if (facts.communicator)
      if (const auto meeting = MeetingOf(*facts.communicator, call)) out.Flow(FlowOf(*meeting));
    out.Uint(kSeq, call.slot);
    if (facts.position) out.Uint(kPosition, *facts.position);
    if (facts.position && functions::IsCollective(call.function))
      out.Counter(CounterFor("position", "", *process, *on, &on->position), *facts.position);
    Arguments(facts, &out);
    if (const auto bandwidth = BandwidthIn(facts)) {
      out.Counter(CounterFor("busbw", "GB/s", *process, *on, &on->bandwidth), bandwidth->busbw_GBps);
      out.Double(kBusbw, bandwidth->busbw_GBps);
    }
  }
  static void Arguments(const Facts& facts, Sequence* out) {
    const reader::Call& call = facts.call;
    if (facts.count) out->Uint(kCount, *facts.count);
    if (facts.bytes) out->Uint(kBytes, *facts.bytes);
    if (call.dtype != format::kNoType)
      out->Text(kDtype, KeyOf(TextOf::kOfDtype, call.dtype), [&] { return DtypeText(call.dtype); });
    if (call.reduction != format::kNoReduction)
      out->Text(kReduction, KeyOf(TextOf::kOfReduction, call.reduction), [&] { return ReductionText(call.reduction); });
    if (!facts.payload.empty())
      out->Text(kPayload, KeyOf(TextOf::kOfPayload, std::hash<std::string>()(facts.payload)),
                [&] { return Printable(facts.payload); });
    if (facts.root) out->Int(kRoot, *facts.root);
    if (facts.peer) out->Int(kPeer, *facts.peer);
    if (call.stream != 0) out->Pointer(kStream, call.stream);
    out->Uint(kThread, call.thread);
    if (facts.group) out->Uint(kGroup, *facts.group);
    const auto state = static_cast<std::uint64_t>(facts.standing.state);
    out->Text(kState, KeyOf(TextOf::kOfState, state), [&] { return Name(facts.standing.state); });
    if (facts.standing.pending) out->Bool(kPending, true);
    if (facts.has_result && call.result != 0)
      out->Text(kResult, KeyOf(TextOf::kOfResult, static_cast<std::uint32_t>(call.result)),
                [&] { return ResultText(call.result); });
    if (call.kernel.clock != format::KernelClock::kNone) out->Double(kKernel, InSeconds(call.kernel.ns));
  }
  // Of the communicator; made with the first value.
  std::uint64_t CounterFor(std::string_view what, std::string_view unit, ProcessTracks& process,
                           const CommunicatorTracks& on, std::uint64_t* uuid) {
    if (*uuid != 0) return *uuid;
    *uuid = ++uuids_;
    process.sequence->CounterTrack(*uuid, process.uuid, fmt::format("{} of {}", what, on.name), unit);
    return *uuid;
  }

  // Each process's behind its calls.
  absl::Status WriteAllOperations() {
    for (std::size_t number = 0; number < processes_.size(); ++number) {
      const ProcessRecording& recorded = source_.recording.processes()[number];
      const reader::Operations operations = perfetto::OperationsByTime(recorded);
      if (operations.all.empty()) continue;
      const std::int64_t began_ns = operations.all.front().began_ns;
      if (file_.bytes() >= most_bytes_)
        if (absl::Status status = NextFile(began_ns); !status.ok()) return status;
      ProcessTracks& process = ProcessNamed(number, recorded.rank(), recorded.process());
      const auto sequence = kFirstProcessSequence + static_cast<std::uint32_t>(processes_.size() + number);
      perfetto::WriteOperations(operations, sequence, process.uuid, &uuids_, &packets_);
      if (absl::Status status = WritePending(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // On a track of their own and on those of their culprits.
  void WriteFindings() {
    const auto findings = source_.diagnose().findings;
    if (findings.empty()) return;
    std::int64_t first_ns = findings.front().began_at_ns;
    for (const diagnosis::Finding& finding : findings) first_ns = std::min(first_ns, finding.began_at_ns);
    Sequence out(kFindingsSequence, first_ns, &packets_);
    const std::uint64_t all = ++uuids_;
    out.Track(all, 0, "ncclwatch: findings");
    for (std::size_t i = 0; i < findings.size(); ++i) {
      std::vector<std::uint64_t> tracks{all};
      for (std::size_t number = 0; number < processes_.size(); ++number) {
        const int rank = source_.recording.processes()[number].rank();
        const auto& culprits = findings[i].culprits;
        if (processes_[number].sequence && std::find(culprits.begin(), culprits.end(), rank) != culprits.end())
          tracks.push_back(processes_[number].uuid);
      }
      for (const std::uint64_t track : tracks) WriteFinding(findings[i], i, track, &out);
    }
  }
  static void WriteFinding(const diagnosis::Finding& finding, std::size_t number, std::uint64_t track, Sequence* out) {
    std::uint64_t key = number * 8;  // of this finding's texts
    const auto text = [&](Argument argument, const std::string& what) {
      out->Text(argument, KeyOf(TextOf::kOfFinding, key++), [&] { return Printable(what); });
    };
    out->Begin(finding.began_at_ns, perfetto::event::kInstant, track);
    out->Name(static_cast<std::uint64_t>(finding.kind), diagnosis::Name(finding.kind));
    out->Category(0, "finding");
    text(kCertainty, std::string(diagnosis::Name(finding.certainty)));
    text(kCulprits, diagnosis::RankSet(finding.culprits));
    text(kSummary, finding.summary);
    if (!finding.next_steps.empty()) text(kNext, finding.next_steps.front());
    out->End();
  }

  const std::string path_;
  const std::uint64_t most_bytes_;
  OutputFile file_;
  ByteBuffer packets_;  // not written yet
  std::vector<ProcessTracks> processes_;
  std::int64_t zero_ns_ = 0;
  std::uint64_t uuids_ = 0;  // of tracks in this file, so far
};

}  // namespace

std::unique_ptr<Exporter> ToPerfetto(const Source& source, const std::string& path, std::uint64_t most_bytes) {
  return std::make_unique<Perfetto>(source, path, most_bytes);
}

}  // namespace ncclwatch::analyzer::exporting
