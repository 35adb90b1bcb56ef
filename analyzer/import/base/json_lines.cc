#include "analyzer/import/base/json_lines.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/import/base/text_file.h"
#include "core/calls/flag_names.h"
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

template <std::size_t kCount>
std::uint32_t FlagsIn(const Json& line, const char* key, const diagnosis::FlagName (&names)[kCount]) {
  std::uint32_t flags = 0;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array()) return 0;
  for (const Json& flag : *found)
    for (const diagnosis::FlagName& one : names)
      if (flag.is_string() && flag.get_ref<const std::string&>() == one.name) flags |= one.flag;
  return flags;
}

std::int32_t ResultNamed(const std::string& result) {
  if (result.empty()) return format::kNoResult;
  for (std::size_t code = 0; code < std::size(functions::kResultNames); ++code)
    if (functions::kResultNames[code] == result) return static_cast<std::int32_t>(code);
  std::int32_t code = 0;
  return result.starts_with("error ") && absl::SimpleAtoi(result.substr(6), &code) ? code : 1;
}

bool IsTrue(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_boolean() && found->get<bool>();
}

template <typename Number>
std::optional<Number> GivenNumber(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return std::nullopt;
  return NumberIn<Number>(line, key, 0);
}

// When it returned; 0: it has not. What it took is exact, unless it is counted until the end of the recording.
std::int64_t ReturnedNs(const Json& line, std::int64_t entered_ns) {
  if (const auto at = GivenNumber<std::int64_t>(line, "returned_ns")) return std::max(entered_ns, *at);
  const auto found = line.find("returned");
  if (found == line.end() || found->is_null()) return 0;
  if (!IsTrue(line, "pending")) return entered_ns + std::max<std::int64_t>(NanosecondsIn(line, "duration_s"), 0);
  absl::Time at;
  const bool told = absl::ParseTime(absl::RFC3339_full, TextIn(line, "returned"), &at, nullptr);
  return std::max(entered_ns + 1, told ? absl::ToUnixNanos(at) : 0);
}

void SetProgress(const Json& line, TraceCall* traced) {
  const std::string state = TextIn(line, "state");
  traced->finished = state == "finished" || state == "failed";
  traced->started = state == "started";
  traced->marked = state == "finished" || state == "started" || (state == "returned" && IsTrue(line, "pending"));
}

void SetArguments(const Json& line, reader::Call* call) {
  call->count = NumberIn<std::uint64_t>(line, "count", 0);
  call->bytes = NumberIn<std::uint64_t>(line, "bytes", 0);
  call->dtype = DatatypeNamed(TextIn(line, "dtype"));
  call->reduction = ReductionNamed(TextIn(line, "reduction"));
  call->root = NumberIn(line, "root", NumberIn(line, "peer", format::kNoRank));
  call->tag = NumberIn(line, "tag", format::kNoTag);
  call->signature = NumberIn<std::uint32_t>(line, "signature", 0);
  call->stream = HexIn(line, "stream");
  call->flags = FlagsIn(line, "flags", diagnosis::kFlagNames);
  if (const auto group = GivenNumber<std::uint64_t>(line, "group")) call->group = *group + 1;
}

std::uint64_t SiteOf(const Json& line, absl::flat_hash_map<std::string, std::uint64_t>* sites, Trace* trace) {
  const std::string text = TextIn(line, "site_text");
  if (text.empty()) return 0;
  const auto [found, fresh] = sites->try_emplace(text, sites->size() + 1);
  if (fresh) trace->sites.push_back({found->second, text, 0, 0});
  return found->second;
}

}  // namespace

std::string LinesToTraces::Add(const Json& line) {
  if (!line.is_object()) return "not an object";
  if (!line.contains("rank") || !line.contains("time_ns")) return "no rank or no time_ns, as `trace --json` writes";
  Process& process = ProcessOf(line);
  if (line.contains("operation")) return AddOperation(line, &process);
  if (line.contains("op")) return AddCall(line, &process);
  return "neither op nor operation";
}

void LinesToTraces::Take(Slots slots, TakeTrace take) {
  int world = 0;  // as many as the highest rank tells
  for (const auto& [key, process] : processes_) world = std::max(world, process.trace.rank + 1);
  for (auto& [key, process] : processes_) {
    process.trace.world_size = world;
    for (TraceGroup& group : process.trace.groups) group.size = std::max(group.size, sizes_[group.id]);
    process.trace.slots = process.numbered ? slots : Slots::kNone;
    take(std::move(process.trace));
  }
}

LinesToTraces::Process& LinesToTraces::ProcessOf(const Json& line) {
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

int LinesToTraces::GroupOf(const Json& line, Process* process) {
  const std::uint64_t id = HexIn(line, "communicator");
  if (id == 0) return -1;
  const int rank = NumberIn(line, "communicator_rank", TraceGroup::kUnknownRank);
  int& size = sizes_[id];
  size = std::max({size, rank + 1, NumberIn(line, "communicator_size", 0)});
  const auto [found, fresh] = process->group_of.try_emplace(id, static_cast<int>(process->trace.groups.size()));
  if (fresh)
    process->trace.groups.push_back({.name = TextIn(line, "label"),
                                     .rank = rank,
                                     .id = id,
                                     .flags = FlagsIn(line, "communicator_flags", diagnosis::kCommunicatorFlagNames)});
  return found->second;
}

std::string LinesToTraces::AddCall(const Json& line, Process* process) {
  TraceCall traced;
  reader::Call& call = traced.call;
  Trace& trace = process->trace;
  const bool mpi = SpeaksMpi(line, TextIn(line, "dtype"));
  call.function = FunctionNamed(TextIn(line, "op"), mpi);
  if (call.function == Function::kNone) return absl::StrCat("an operation that is not known: ", TextIn(line, "op"));
  call.entered_ns = NumberIn<std::int64_t>(line, "time_ns", 0);
  call.returned_ns = ReturnedNs(line, call.entered_ns);
  // What is pending takes until the end of the recording.
  const std::int64_t until_ns = call.entered_ns + std::max<std::int64_t>(NanosecondsIn(line, "duration_s"), 0);
  trace.ended_ns = std::max(trace.ended_ns, until_ns);
  call.completed_ns = NumberIn<std::int64_t>(line, "completed_ns", 0);
  if (const auto waiter = GivenNumber<std::uint64_t>(line, "waiter")) call.waiter = *waiter + 1;
  call.thread = NumberIn<std::uint32_t>(line, "thread", 0);
  SetArguments(line, &call);
  if (mpi && (call.flags & format::kPolls) != 0) call.returned_ns = 0;  // as a box has it: a row of tests may go on
  if (const auto position = GivenNumber<std::uint64_t>(line, "position")) {
    call.position = *position;
    traced.has_position = true;
  } else if (mpi && functions::IsMessage(call.function)) {
    call.position = format::kNotMatched;
  }
  call.result = ResultNamed(TextIn(line, "result"));
  call.kernel = KernelIn(line);
  call.site = SiteOf(line, &process->site_of, &trace);
  SetProgress(line, &traced);
  traced.group = GroupOf(line, process);
  const auto slot = GivenNumber<std::uint64_t>(line, "seq");
  process->numbered = process->numbered && slot;
  call.slot = slot.value_or(0);
  trace.calls.push_back(std::move(traced));
  return "";
}

std::string LinesToTraces::AddOperation(const Json& line, Process* process) {
  Trace& trace = process->trace;
  reader::Operation one;
  const std::string name = TextIn(line, "operation"), like = TextIn(line, "like"), meets = TextIn(line, "meets");
  const std::string kind = TextIn(line, "kind");
  one.kind = static_cast<reader::OperationKind>(PlaceIn(reader::kOperationKinds, kind));
  if (reader::kOperationKinds[static_cast<std::size_t>(one.kind)] != kind)
    return absl::StrCat("a kind of operation that is not known: ", kind);
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
  traces.Take(Slots::kKept, take);
}

}  // namespace ncclwatch::analyzer::import
