#include <absl/container/flat_hash_map.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "analyzer/import/base/text_file.h"
#include "analyzer/import/base/trace.h"
#include "ncclwatch/functions/types.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::import {
namespace {

using functions::Function;
using Json = nlohmann::json;

constexpr std::size_t kMostComplaints = 3;  // of one file

// ---- words to numbers --------------------------------------------------------------------------------------------

std::string TextIn(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <typename Number>
Number NumberIn(const Json& line, const char* key, Number missing) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return missing;
  const auto value = found->get<std::int64_t>();
  return std::in_range<Number>(value) ? static_cast<Number>(value) : missing;
}

std::int64_t NanosecondsIn(const Json& line, const char* key) {
  constexpr double kMost_s = 1e9;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return 0;
  const double seconds = found->get<double>();
  return std::abs(seconds) < kMost_s ? std::llround(seconds * 1e9) : 0;
}

std::uint64_t HexIn(const Json& line, const char* key) {
  const std::string text = TextIn(line, key);
  std::uint64_t value = 0;
  return absl::SimpleHexAtoi(text, &value) ? value : 0;
}

// NCCL's and MPI's have names in common.
Function FunctionNamed(const std::string& op, bool mpi) {
  static const auto by_name = [] {
    absl::flat_hash_map<std::pair<std::string, bool>, Function> names;
    for (const functions::FunctionInfo& one : functions::kFunctions)
      names.try_emplace({std::string(functions::OpName(one.function)), functions::IsMpi(one.function)}, one.function);
    return names;
  }();
  for (const bool library : {mpi, !mpi})
    if (const auto found = by_name.find({op, library}); found != by_name.end()) return found->second;
  return Function::kNone;
}

std::uint8_t DatatypeNamed(const std::string& name) {
  for (std::size_t i = 0; i < std::size(functions::kDatatypes); ++i)
    if (functions::kDatatypes[i].name == name) return static_cast<std::uint8_t>(i);
  for (const functions::NumberedName& one : functions::kMpiDatatypes)
    if (one.name == name) return one.number;
  return name == "derived" ? functions::kDerivedType : format::kNoType;
}

std::uint8_t ReductionNamed(const std::string& name) {
  for (std::size_t i = 0; i < std::size(functions::kReductions); ++i)
    if (functions::kReductions[i] == name) return static_cast<std::uint8_t>(i);
  for (const functions::NumberedName& one : functions::kMpiOperators)
    if (one.name == name) return one.number;
  return name == "user" ? format::kUserReduction : format::kNoReduction;
}

bool SpeaksMpi(const Json& line, const std::string& dtype) {
  if (const std::string library = TextIn(line, "library"); !library.empty()) return library == "mpi";
  for (const functions::NumberedName& one : functions::kMpiDatatypes)
    if (one.name == dtype) return true;
  return FunctionNamed(TextIn(line, "op"), false) == Function::kNone;
}

template <std::size_t kCount>
std::size_t PlaceIn(const std::string_view (&names)[kCount], const std::string& name) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (names[i] == name) return i;
  return 0;
}

format::KernelTime KernelIn(const Json& line) {
  const auto found = line.find("kernel");
  if (found == line.end() || !found->is_object()) return {};
  format::KernelTime kernel;
  kernel.ns = static_cast<std::uint64_t>(std::max<std::int64_t>(NanosecondsIn(*found, "duration_s"), 0));
  kernel.clock = TextIn(*found, "clock") == "proxy" ? format::KernelClock::kProxy : format::KernelClock::kGpu;
  kernel.algorithm = format::Algorithm(PlaceIn(format::kAlgorithms, TextIn(*found, "algorithm")));
  kernel.protocol = format::Protocol(PlaceIn(format::kProtocols, TextIn(*found, "protocol")));
  kernel.channels = NumberIn<std::uint8_t>(*found, "channels", 0);
  return kernel;
}

std::uint32_t FlagsIn(const Json& line) {
  static constexpr std::pair<const char*, std::uint32_t> kNames[] = {
      {"empty", format::kEmpty},       {"one_rank", format::kOneRank},
      {"captured", format::kCaptured}, {"non_blocking", format::kNonBlocking},
      {"grouped", format::kGrouped},   {"no_mark", format::kMarkUnavailable}};
  std::uint32_t flags = 0;
  const auto found = line.find("flags");
  if (found == line.end() || !found->is_array()) return 0;
  for (const Json& flag : *found)
    for (const auto& [name, bit] : kNames)
      if (flag.is_string() && flag.get_ref<const std::string&>() == name) flags |= bit;
  return flags;
}

std::int32_t ResultNamed(const std::string& result) {
  if (result.empty()) return format::kNoResult;
  for (std::size_t code = 0; code < std::size(functions::kResultNames); ++code)
    if (functions::kResultNames[code] == result) return static_cast<std::int32_t>(code);
  std::int32_t code = 0;
  return result.starts_with("error ") && absl::SimpleAtoi(result.substr(6), &code) ? code : 1;
}

// The duration is exact, but that of a pending call goes on after its return.
std::int64_t ReturnedIn(const Json& line, std::int64_t entered_ns) {
  absl::Time returned;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, TextIn(line, "returned"), &returned, &error)) return 0;
  const bool pending = line.contains("pending") && line["pending"] == true;
  if (pending) return std::max(absl::ToUnixNanos(returned), entered_ns);
  return entered_ns + std::max<std::int64_t>(NanosecondsIn(line, "duration_s"), 0);
}

// ---- lines to traces ---------------------------------------------------------------------------------------------

class LinesToTraces {
 public:
  // Empty: it was taken.
  std::string Add(const Json& line) {
    if (!line.is_object()) return "not an object";
    if (!line.contains("rank") || !line.contains("time_ns")) return "no rank or no time_ns, as `trace --json` writes";
    Process& process = ProcessOf(line);
    if (line.contains("operation")) return AddOperation(line, &process);
    if (line.contains("op")) return AddCall(line, &process);
    return "neither op nor operation";
  }

  void Take(TakeTrace take) {
    const int world = WorldSize();
    for (auto& [key, process] : processes_) {
      process.trace.world_size = world;
      for (TraceGroup& group : process.trace.groups) group.size = std::max(group.size, sizes_[group.id]);
      take(std::move(process.trace));
    }
  }

 private:
  // As many as the highest rank tells.
  int WorldSize() const {
    int size = 0;
    for (const auto& [key, process] : processes_) size = std::max(size, process.trace.rank + 1);
    return size;
  }

  struct Process {
    Trace trace;
    absl::flat_hash_map<std::uint64_t, int> group_of;  // by identity
    absl::flat_hash_map<std::string, std::uint64_t> site_of, lane_of;
  };

  Process& ProcessOf(const Json& line) {
    const std::string host = TextIn(line, "host");
    const int rank = NumberIn(line, "rank", -1);
    const auto pid = NumberIn<std::uint32_t>(line, "pid", 0);
    const auto [found, fresh] = processes_.try_emplace({host, pid, rank});
    Trace& trace = found->second.trace;
    if (fresh) {
      trace.host = host;
      trace.pid = pid;
      trace.rank = rank;
    }
    trace.stage = NumberIn(line, "stage", trace.stage);
    trace.replica = NumberIn(line, "replica", trace.replica);
    return found->second;
  }

  int GroupOf(const Json& line, Process* process) {
    const std::uint64_t id = HexIn(line, "communicator");
    if (id == 0) return -1;
    const int rank = NumberIn(line, "communicator_rank", -1);
    int& size = sizes_[id];
    size = std::max({size, rank + 1, NumberIn(line, "communicator_size", 0)});
    const auto [found, fresh] = process->group_of.try_emplace(id, static_cast<int>(process->trace.groups.size()));
    if (fresh) process->trace.groups.push_back({.name = TextIn(line, "label"), .rank = rank, .id = id});
    return found->second;
  }

  static std::uint64_t SiteOf(const Json& line, Process* process) {
    const std::string text = TextIn(line, "site_text");
    if (text.empty()) return 0;
    const auto [found, fresh] = process->site_of.try_emplace(text, process->site_of.size() + 1);
    if (fresh) process->trace.sites.push_back({found->second, text, 0});
    return found->second;
  }

  std::string AddCall(const Json& line, Process* process) {
    TraceCall traced;
    reader::Call& call = traced.call;
    const std::string dtype = TextIn(line, "dtype"), state = TextIn(line, "state");
    const bool mpi = SpeaksMpi(line, dtype);
    call.function = FunctionNamed(TextIn(line, "op"), mpi);
    if (call.function == Function::kNone) return absl::StrCat("an operation that is not known: ", TextIn(line, "op"));
    process->trace.mpi |= mpi;
    call.entered_ns = NumberIn<std::int64_t>(line, "time_ns", 0);
    call.returned_ns = ReturnedIn(line, call.entered_ns);
    call.thread = NumberIn<std::uint32_t>(line, "thread", 0);
    call.position = NumberIn<std::uint64_t>(line, "position", 0);
    traced.has_position = line.contains("position") && line["position"].is_number();
    call.count = NumberIn<std::uint64_t>(line, "count", 0);
    call.bytes = NumberIn<std::uint64_t>(line, "bytes", 0);
    call.dtype = DatatypeNamed(dtype);
    call.reduction = ReductionNamed(TextIn(line, "reduction"));
    call.root = NumberIn(line, "root", NumberIn(line, "peer", format::kNoRank));
    call.tag = NumberIn(line, "tag", format::kNoTag);
    call.stream = HexIn(line, "stream");
    if (line.contains("group") && line["group"].is_number()) call.group = NumberIn<std::uint64_t>(line, "group", 0) + 1;
    call.result = ResultNamed(TextIn(line, "result"));
    call.kernel = KernelIn(line);
    call.flags = FlagsIn(line);
    call.site = SiteOf(line, process);
    const bool pending = line.contains("pending") && line["pending"] == true;
    if (state == "finished" || state == "failed")
      traced.finished = true;
    else if (pending)
      traced.finished = false;
    else
      traced.finished = std::nullopt;
    traced.group = GroupOf(line, process);
    if (process->trace.calls.empty()) process->trace.first_slot = NumberIn<std::uint64_t>(line, "seq", 0);
    process->trace.calls.push_back(std::move(traced));
    return "";
  }

  std::string AddOperation(const Json& line, Process* process) {
    static constexpr std::string_view kKinds[] = {"compute", "copy", "communication", "step"};
    Trace& trace = process->trace;
    reader::Operation one;
    const std::string name = TextIn(line, "operation"), like = TextIn(line, "like"), meets = TextIn(line, "meets");
    one.kind = static_cast<reader::OperationKind>(PlaceIn(kKinds, TextIn(line, "kind")));
    one.name = trace.NameOf(name);
    one.like = like.empty() ? one.name : trace.NameOf(like);
    one.began_ns = NumberIn<std::int64_t>(line, "time_ns", 0);
    one.duration_ns = std::max<std::int64_t>(NanosecondsIn(line, "duration_s"), 0);
    one.step = NumberIn<std::int64_t>(line, "step", format::kNoStep);
    one.bytes = NumberIn<std::uint64_t>(line, "bytes", 0);
    one.lane = process->lane_of.try_emplace(TextIn(line, "lane"), process->lane_of.size() + 1).first->second;
    if (!meets.empty()) one.meets = meetings_.try_emplace(meets, meetings_.size() + 1).first->second;
    const auto after = line.find("after");
    if (after != line.end() && after->is_array()) {
      trace.operations.ordered = true;
      for (const Json& other : *after)
        if (other.is_number_unsigned()) one.after.push_back(other.get<std::uint32_t>());
    }
    trace.operations.all.push_back(std::move(one));
    return "";
  }

  std::map<std::tuple<std::string, std::uint32_t, int>, Process> processes_;  // by host, pid and rank
  absl::flat_hash_map<std::uint64_t, int> sizes_;                             // by identity of the group
  absl::flat_hash_map<std::string, std::uint64_t> meetings_;
};

}  // namespace

void ReadJsonLines(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done) {
  LinesToTraces traces;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::size_t number = 0, damaged = 0;
    const auto complain = [&](std::string_view what) {
      if (++damaged <= kMostComplaints)
        imported->failures.push_back({absl::StrCat(files[i], ":", number), std::string(what)});
    };
    const absl::Status status = EachLine(files[i], [&](std::string_view text) {
      ++number;
      if (text.empty()) return;
      const Json line = Json::parse(text, nullptr, false);
      if (line.is_discarded()) return complain("not JSON");
      if (const std::string wrong = traces.Add(line); !wrong.empty()) complain(wrong);
    });
    if (!status.ok()) imported->failures.push_back({files[i], std::string(status.message())});
    if (damaged > kMostComplaints)
      imported->failures.push_back({files[i], fmt::format("{} lines in all were left out", damaged)});
    done(i + 1);
  }
  traces.Take(take);
}

}  // namespace ncclwatch::analyzer::import
