#include "analyzer/export/torch_dump.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/import/opcodes.h"
#include "core/model/text.h"
#include "core/reader/image.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using diagnosis::CommView;
using diagnosis::Member;
using diagnosis::Node;
using diagnosis::View;
using functions::Function;
using import::Opcode;
using reader::Call;

// Writes a pickle of plain data as torch's own pickler does: protocol 2, every string once.

class PickleWriter {
 public:
  PickleWriter();

  void None();
  void Bool(bool value);
  void Integer(std::int64_t value);
  void String(std::string_view text);
  // What is written between the two becomes the items; in a dictionary keys and values in turn.
  void BeginList();
  void EndList();
  void BeginDictionary();
  void EndDictionary();
  void Pair(std::string_view first, std::string_view second);  // a tuple of two strings

  void Key(std::string_view key) { String(key); }
  void Item(std::string_view key, std::string_view value);
  void Item(std::string_view key, const char* value) { Item(key, std::string_view(value)); }
  void Item(std::string_view key, std::int64_t value);
  void Item(std::string_view key, bool value);

  std::string Take();  // all of it, ended

 private:
  void Byte(char byte) { bytes_ += byte; }
  template <typename T>
  void Fixed(T value);

  std::string bytes_;
  absl::flat_hash_map<std::string, std::uint32_t> numbers_;  // of strings that are there already
};

constexpr char Code(Opcode opcode) { return static_cast<char>(opcode); }

PickleWriter::PickleWriter() {
  constexpr char kProtocol = 2;
  Byte(Code(Opcode::kProto));
  Byte(kProtocol);
}

// Little endian, as this machine is (import/pickle.cc).
template <typename T>
void PickleWriter::Fixed(T value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PickleWriter::None() { Byte(Code(Opcode::kNone)); }

void PickleWriter::Bool(bool value) { Byte(Code(value ? Opcode::kNewTrue : Opcode::kNewFalse)); }

void PickleWriter::Integer(std::int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    Byte(Code(Opcode::kBinInt1));
    Fixed(static_cast<std::uint8_t>(value));
  } else if (value >= 0 && value <= std::numeric_limits<std::uint16_t>::max()) {
    Byte(Code(Opcode::kBinInt2));
    Fixed(static_cast<std::uint16_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    Byte(Code(Opcode::kBinInt));
    Fixed(static_cast<std::int32_t>(value));
  } else {
    Byte(Code(Opcode::kLong1));
    Fixed(static_cast<std::uint8_t>(sizeof value));
    Fixed(value);
  }
}

void PickleWriter::String(std::string_view text) {
  const auto [found, fresh] = numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(numbers_.size()));
  const std::uint32_t number = found->second;
  const bool small = number <= std::numeric_limits<std::uint8_t>::max();
  if (fresh) {
    Byte(Code(Opcode::kBinUnicode));
    Fixed(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
    Byte(Code(small ? Opcode::kBinPut : Opcode::kLongBinPut));
  } else {
    Byte(Code(small ? Opcode::kBinGet : Opcode::kLongBinGet));
  }
  if (small)
    Fixed(static_cast<std::uint8_t>(number));
  else
    Fixed(number);
}

void PickleWriter::BeginList() {
  Byte(Code(Opcode::kEmptyList));
  Byte(Code(Opcode::kMark));
}
void PickleWriter::EndList() { Byte(Code(Opcode::kAppends)); }

void PickleWriter::BeginDictionary() {
  Byte(Code(Opcode::kEmptyDict));
  Byte(Code(Opcode::kMark));
}
void PickleWriter::EndDictionary() { Byte(Code(Opcode::kSetItems)); }

void PickleWriter::Pair(std::string_view first, std::string_view second) {
  String(first);
  String(second);
  Byte(Code(Opcode::kTuple2));
}

void PickleWriter::Item(std::string_view key, std::string_view value) {
  Key(key);
  String(value);
}
void PickleWriter::Item(std::string_view key, std::int64_t value) {
  Key(key);
  Integer(value);
}
void PickleWriter::Item(std::string_view key, bool value) {
  Key(key);
  Bool(value);
}

std::string PickleWriter::Take() {
  Byte(Code(Opcode::kStop));
  return std::move(bytes_);
}

// How torch's flight recorder names what NCCL does, and the sizes of the tensors that such a call has.

struct TorchCall {
  std::string name;                            // "nccl:all_reduce", "nccl:send 0->1"
  std::optional<std::uint64_t> input, output;  // elements; none: no such tensor
};

// None for what the recorder knows no name for.
std::optional<TorchCall> ToTorchCall(const reader::Call& call, const reader::Communicator& communicator) {
  const std::uint64_t count = call.count, all = call.count * communicator.size;
  const bool root = call.root == static_cast<std::int32_t>(communicator.rank);
  const auto if_root = [&](std::uint64_t elements) { return root ? std::optional(elements) : std::nullopt; };
  switch (format::Canonical(call.function)) {
    case Function::ncclAllReduce: return TorchCall{"nccl:all_reduce", count, count};
    case Function::ncclBroadcast: return TorchCall{"nccl:broadcast", count, count};
    case Function::ncclReduce: return TorchCall{"nccl:reduce", count, count};
    case Function::ncclAllGather: return TorchCall{"nccl:_all_gather_base", count, all};
    case Function::ncclReduceScatter: return TorchCall{"nccl:_reduce_scatter_base", all, count};
    case Function::ncclAlltoAll: return TorchCall{"nccl:all_to_all", all, all};
    case Function::ncclGather: return TorchCall{"nccl:gather", count, if_root(all)};
    case Function::ncclScatter: return TorchCall{"nccl:scatter", if_root(all), count};
    case Function::ncclSend:
      return TorchCall{fmt::format("nccl:send {}->{}", communicator.rank, call.root), count, count};
    case Function::ncclRecv:
      return TorchCall{fmt::format("nccl:recv {}<-{}", communicator.rank, call.root), count, count};
    default: return std::nullopt;
  }
}

// "Float"
std::string_view TorchTypeName(std::uint8_t dtype) {
  // By number of ncclDataType_t.
  static constexpr std::string_view kNames[] = {"Char", "Byte",  "Int",    "UInt32",   "Long",          "UInt64",
                                                "Half", "Float", "Double", "BFloat16", "Float8_e4m3fn", "Float8_e5m2"};
  return dtype < std::size(kNames) ? kNames[dtype] : "Undefined";
}

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
