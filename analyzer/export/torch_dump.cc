#include "analyzer/export/torch_dump.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/export/pickle_writer.h"
#include "analyzer/export/torch_names.h"
#include "watchdog/diagnosis/model/text.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using diagnosis::CommView;
using diagnosis::Member;
using diagnosis::Node;
using diagnosis::View;
using reader::Call;

constexpr char kVersion[] = "2.10";
constexpr char kCoalesced[] = "nccl:coalesced";

// Job ranks by rank, which torch's tools cannot do without.
bool RanksKnown(const CommView& comm) {
  return comm.comparable && !comm.job_ranks.empty() &&
         std::find(comm.job_ranks.begin(), comm.job_ranks.end(), -1) == comm.job_ranks.end();
}

std::string Name(const CommView& comm) { return diagnosis::Hex16(comm.id); }

std::string Description(const View& view, const CommView& comm) {
  if (!comm.label.empty()) return comm.label;
  return comm.parent == 0 && static_cast<int>(comm.size) == view.expected ? "default_pg" : "undefined";
}

std::string RankList(const CommView& comm) { return fmt::format("[{}]", absl::StrJoin(comm.job_ranks, ", ")); }

// "2.28.9" of 22809.
std::string VersionText(std::uint32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The dump of one rank.
class Writer {
 public:
  Writer(const View& view, const Node& node) : view_(view), process_(view.process(node)) {
    for (const auto& at : node.memberships) {
      const CommView& comm = view.comms[at.first];
      const Member& member = view.member(at);
      if (!RanksKnown(comm) || !member.rank_known()) continue;
      Series& series = series_.emplace_back(Series{&comm, &member});
      series.unfinished = view.Unfinished(member);
    }
    for (std::size_t i = 0; i < series_.size(); ++i) Collect(i);
    std::sort(calls_.begin(), calls_.end(),
              [](const Placed& a, const Placed& b) { return a.call->slot < b.call->slot; });
  }

  std::string Dump() {
    out_.BeginDictionary();
    out_.Item("version", kVersion);
    Configuration();
    out_.Item("comm_lib_version", VersionText(process_.box->nccl_version));
    Status();
    out_.Key("entries");
    out_.BeginList();
    for (const Placed& placed : calls_) Entry(placed);
    for (std::size_t i = 0; i < series_.size(); ++i) EndCoalesced(i);
    out_.EndList();
    out_.EndDictionary();
    return out_.Take();
  }

 private:
  // One communicator.
  struct Series {
    const CommView* comm = nullptr;
    const Member* member = nullptr;
    std::uint64_t unfinished = 0;
    std::int64_t collectives = 0, launches = 0;  // so far: torch's two sequence numbers
    std::uint64_t group = 0;                     // of the sends and receives that are coalesced at the moment
    const Call* last = nullptr;                  // of them
    bool finished = true;                        // all of them
  };
  struct Placed {
    const Call* call = nullptr;
    std::size_t series = 0;
  };

  // Records that the ring has lost count too: torch's tools compare the numbers of different ranks.
  void Collect(std::size_t index) {
    Series& series = series_[index];
    const Member& member = *series.member;
    for (const Call* call : member.calls) calls_.push_back({call, index});
    for (const Call* call : member.messages)
      if (call->root >= 0) calls_.push_back({call, index});
    const std::uint64_t made = member.entered + member.comm->sends + member.comm->receives;
    const std::uint64_t held = member.calls.size() + member.messages.size();
    if (made > held) records_ += static_cast<std::int64_t>(made - held);
    const std::uint64_t messages = member.comm->sends + member.comm->receives;
    if (messages > member.messages.size())
      series.launches = static_cast<std::int64_t>(messages - member.messages.size());
  }

  void Configuration() {
    out_.Key("pg_config");
    out_.BeginDictionary();
    for (const Series& series : series_) {
      out_.Key(Name(*series.comm));
      out_.BeginDictionary();
      out_.Item("name", Name(*series.comm));
      out_.Item("desc", Description(view_, *series.comm));
      out_.Item("ranks", RankList(*series.comm));
      out_.EndDictionary();
    }
    out_.EndDictionary();
  }

  void Status() {
    out_.Key("pg_status");
    out_.BeginDictionary();
    for (std::size_t i = 0; i < series_.size(); ++i) {
      out_.Key(fmt::format("{}", i));
      out_.BeginDictionary();
      out_.Item("last_enqueued_collective", static_cast<std::int64_t>(series_[i].member->entered));
      out_.Item("last_started_collective", std::int64_t{-1});
      out_.Item("last_completed_collective", static_cast<std::int64_t>(series_[i].unfinished));
      out_.EndDictionary();
    }
    out_.EndDictionary();
  }

  bool Finished(const Series& series, const Call& call) const {
    if (functions::IsCollective(call.function) && call.position < series.unfinished) return true;
    return (call.flags & format::kMarked) != 0 && series.member->comm->Finished(call.ticket);
  }

  // Sends and receives of one group are one launch, which an entry of its own stands for.
  void EndCoalesced(std::size_t index) {
    Series& series = series_[index];
    if (series.last == nullptr) return;
    TorchCall none;
    none.name = kCoalesced;
    Write(index, *series.last, none, true, series.finished);
    series.last = nullptr;
  }

  void Entry(const Placed& placed) {
    Series& series = series_[placed.series];
    const Call& call = *placed.call;
    const std::optional<TorchCall> torch = ToTorchCall(call, *series.member->comm);
    const bool message = !functions::IsCollective(call.function);
    const bool goes_on = series.last != nullptr && message && call.group == series.group;
    if (!goes_on) EndCoalesced(placed.series);
    if (!torch) return;
    if (message && !goes_on) ++series.launches;
    if (!message) series.collectives = static_cast<std::int64_t>(call.position) + 1;
    const bool finished = Finished(series, call);
    if (message && call.group != 0) {
      series.finished = finished && (!goes_on || series.finished);
      series.group = call.group;
      series.last = &call;
    }
    Write(placed.series, call, *torch, message, finished);
  }

  void Tensors(std::string_view sizes_key, std::string_view types_key, std::optional<std::uint64_t> elements,
               std::uint8_t dtype) {
    out_.Key(sizes_key);
    out_.BeginList();
    if (elements) {
      out_.BeginList();
      out_.Integer(static_cast<std::int64_t>(*elements));
      out_.EndList();
    }
    out_.EndList();
    out_.Key(types_key);
    out_.BeginList();
    if (elements) out_.String(TorchTypeName(dtype));
    out_.EndList();
  }

  void Frames(const Call& call) {
    out_.Key("frames");
    out_.BeginList();
    if (call.site != 0) {
      const std::string place = reader::SiteText(*process_.box, call.site);
      out_.BeginDictionary();
      out_.Item("name", place);
      out_.Item("filename", place.substr(0, place.rfind('+')));
      out_.Item("line", std::int64_t{0});
      out_.EndDictionary();
    }
    out_.EndList();
  }

  void Write(std::size_t index, const Call& call, const TorchCall& torch, bool p2p, bool finished) {
    const Series& series = series_[index];
    out_.BeginDictionary();
    Frames(call);
    out_.Item("record_id", records_++);
    out_.Item("pg_id", static_cast<std::int64_t>(index));
    out_.Key("process_group");
    out_.Pair(Name(*series.comm), Description(view_, *series.comm));
    out_.Item("thread_name", "");
    out_.Item("thread_id", fmt::format("{}", call.thread));
    out_.Item("collective_seq_id", series.collectives);
    out_.Item("p2p_seq_id", series.launches);
    out_.Item("op_id", records_);
    out_.Item("profiling_name", torch.name);
    out_.Item("time_created_ns", call.entered_ns + process_.box->realtime_minus_monotonic_ns);
    Tensors("input_sizes", "input_dtypes", torch.input, call.dtype);
    Tensors("output_sizes", "output_dtypes", torch.output, call.dtype);
    // That a kernel has begun few boxes know.
    out_.Item("state", finished ? "completed" : "scheduled");
    for (const char* unknown : {"time_discovered_started_ns", "time_discovered_completed_ns"}) {
      out_.Key(unknown);
      out_.None();
    }
    out_.Item("retired", finished);
    // torch's own is not known; after this long a wait counts as a hang here.
    out_.Item("timeout_ms", view_.snapshot->limits.likely_after_ns / 1'000'000);
    out_.Item("is_p2p", p2p);
    out_.EndDictionary();
  }

  const View& view_;
  const diagnosis::Process& process_;
  std::vector<Series> series_;
  std::vector<Placed> calls_;
  std::int64_t records_ = 0;
  PickleWriter out_;
};

}  // namespace

TorchDumps ToTorchDumps(const View& view) {
  TorchDumps all;
  for (const CommView& comm : view.comms)
    if (!RanksKnown(comm))
      all.notes.push_back(
          fmt::format("communicator {:016x} is left out: the ranks of some of its members are not known", comm.id));
  for (const Node& node : view.nodes) all.dumps.push_back({node.rank, Writer(view, node).Dump()});
  return all;
}

}  // namespace ncclwatch::analyzer::exporting
