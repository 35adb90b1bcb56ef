#include "analyzer/import/kineto/process.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "analyzer/import/kineto/groups.h"
#include "analyzer/import/kineto/names.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/note.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

using functions::Function;
using reader::OperationKind;

constexpr std::int64_t kHostLane = 1;  // those of the GPU are above it

struct Launch {
  std::int64_t correlation = 0, at_ns = 0;
  std::uint64_t thread = 0;
};

// Where the host made a call, or let the GPU begin those that it had made before.
struct Place {
  std::uint64_t thread = 0;
  std::int64_t began_ns = 0, ended_ns = 0;
  std::int64_t external = -1;
  std::size_t call = SIZE_MAX;  // place in Trace::calls; SIZE_MAX: it begins those before it
};

struct Kernel {
  std::size_t operation = 0;
  std::int64_t correlation = -1, external = -1;
};

std::uint64_t ThreadOf(const Event& event) { return format::Mix(event.process, event.thread); }

// Before torch told parameters of calls, it told C++'s names of types.
ScalarType CppType(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float", "Float"},
      {"double", "Double"},
      {"long int", "Long"},
      {"long", "Long"},
      {"int", "Int"},
      {"signed char", "Char"},
      {"char", "Char"},
      {"unsigned char", "Byte"},
      {"bool", "Bool"},
      {"c10::BFloat16", "BFloat16"},
      {"c10::Half", "Half"},
      {"c10::complex<float>", "ComplexFloat"},
      {"c10::complex<double>", "ComplexDouble"},
  };
  for (const auto& [cpp, torch] : kNames)
    if (cpp == name) return ParseScalarType(torch);
  return {format::kNoType, 1};
}

class Builder {
 public:
  explicit Builder(const std::string& path) {
    window_.trace.path = path;
    window_.trace.window = true;
    const FileName facts = FactsIn(path);
    window_.trace.host = facts.host;
    window_.trace.pid = facts.pid;
    window_.trace.rank = facts.rank;
  }

  void Add(const Event& event) {
    if (event.category == "gpu_user_annotation") return;  // those of the host again, where their work ran
    const Activity activity = ActivityOf(event.category);
    if (activity != Activity::kNone && event.timed)
      AddWork(event, activity);
    else if (const std::int64_t step = StepIn(event.name); step >= 0)
      AddStep(event, step);
    else if (!event.collective.empty())
      AddRecorded(event);
    else if (const std::string_view backend = BackendIn(event.name); !backend.empty())
      AddAnnotation(event, backend);
    else if (event.correlation >= 0)
      launches_.push_back({event.correlation, event.began_ns, ThreadOf(event)});
  }

  Window Take(const TraceHeader& header, absl::Status status) {
    window_.status = std::move(status);
    SetProcess(header);
    OrderSteps();
    AddAnnotatedCalls();
    ResolveGroups(header.groups);
    LinkKernels();
    if (window_.trace.calls.empty()) MakeCallsOfKernels();
    MergeCoalesced();
    AddNotes();
    Shift(header.base_ns);
    return std::move(window_);
  }

 private:
  // ---- what an event adds ----

  void AddWork(const Event& event, Activity activity) {
    Trace& trace = window_.trace;
    reader::Operation one;
    const bool communicates =
        activity == Activity::kKernel && (!event.collective.empty() || IsCommunication(event.name));
    one.kind = activity == Activity::kCopy ? OperationKind::kCopy
               : communicates              ? OperationKind::kCommunication
                                           : OperationKind::kCompute;
    one.name = trace.NameOf(ShortName(event.name));
    one.like = communicates ? one.name : LikeOf(event, activity);
    one.began_ns = event.began_ns;
    one.duration_ns = event.duration_ns;
    const std::int64_t device = event.device >= 0 ? event.device : static_cast<std::int64_t>(event.process);
    const std::int64_t stream = event.stream >= 0 ? event.stream : static_cast<std::int64_t>(event.thread);
    one.lane = static_cast<std::uint64_t>(device + 1) << 32 | static_cast<std::uint32_t>(stream);
    if (event.bytes > 0) one.bytes = static_cast<std::uint64_t>(event.bytes);
    const std::size_t place = trace.operations.all.size();
    work_.push_back({place, event.correlation, event.external});
    if (communicates) {
      facts_of_[place] = {AlgorithmOf(event.name), ProtocolOf(event.name), FunctionOf(event.name), ChannelsOf(event)};
      if (!event.collective.empty()) AddOwn(event, place);
    }
    trace.operations.all.push_back(std::move(one));
  }

  // Kernels of one name and size are expected to take equally long, copies of one size.
  std::uint32_t LikeOf(const Event& event, Activity activity) {
    constexpr std::size_t kMostOfName = 200;  // names are cut at 255 in a recording
    const std::string_view name = std::string_view(event.name).substr(0, kMostOfName);
    if (activity == Activity::kCopy)
      return window_.trace.NameOf(fmt::format("{} {}", name, std::max<std::int64_t>(event.bytes, 0)));
    return window_.trace.NameOf(event.grid.empty() ? std::string(name) : fmt::format("{} {}", name, event.grid));
  }

  static std::uint8_t ChannelsOf(const Event& event) {
    int channels = 0;
    for (const char digit : event.grid) {
      if (digit < '0' || digit > '9' || channels > format::kMostChannels) break;
      channels = channels * 10 + (digit - '0');
    }
    return static_cast<std::uint8_t>(std::min<int>(channels, format::kMostChannels));
  }

  void AddStep(const Event& event, std::int64_t number) {
    if (!event.timed) return;
    window_.steps.push_back({number, event.began_ns, event.began_ns + event.duration_ns, ThreadOf(event)});
    if (window_.trace.pid == 0) window_.trace.pid = static_cast<std::uint32_t>(event.process);
  }

  // Of torch's own record of a call's parameters. It records what is no call of NCCL too ("wait").
  void AddRecorded(const Event& event) {
    const Operation operation = ParseOperation(event.collective);
    if (operation.ends_coalesced && operation.function == Function::kNone) return Begin(event);
    if (operation.function == Function::kNone) {
      window_.unknown += event.collective != "wait" && event.collective != "init";
      return;
    }
    Keep(event, CallOf(event, operation));
  }

  // Its parameters are those of its inputs; kept until it is known whether torch has recorded them also otherwise.
  void AddAnnotation(const Event& event, std::string_view backend) {
    const Operation operation = ParseOperation(event.name);
    if (operation.ends_coalesced && operation.function == Function::kNone) return Begin(event);
    if (!event.timed || operation.function == Function::kNone) return;
    TraceCall traced = Common(event, operation);
    const ScalarType type = CppType(event.input_type);
    traced.call.dtype = type.dtype;
    traced.call.count = event.input_elements * type.multiplier;
    traced.call.root = operation.peer;
    traced.group = groups_.World(IsOnGpu(backend) ? std::string_view() : backend);
    annotated_.push_back(
        {{ThreadOf(event), event.began_ns, event.began_ns + event.duration_ns, event.external, SIZE_MAX}, traced});
  }

  void AddOwn(const Event& event, std::size_t operation) {
    const Operation parsed = ParseOperation(event.collective);
    if (parsed.function == Function::kNone) return;
    TraceCall traced = CallOf(event, parsed);
    traced.group = groups_.Of(event);
    traced.operation = operation;
    own_.push_back(std::move(traced));
  }

  static TraceCall Common(const Event& event, const Operation& operation) {
    TraceCall traced;
    traced.call.function = operation.function;
    traced.call.entered_ns = event.began_ns;
    traced.call.returned_ns = event.began_ns + std::max<std::int64_t>(event.duration_ns, 1);
    traced.call.thread = static_cast<std::uint32_t>(event.thread);
    traced.by_rank = operation.amount == Amount::kByRank;
    return traced;
  }

  static TraceCall CallOf(const Event& event, const Operation& operation) {
    TraceCall traced = Common(event, operation);
    const ScalarType type = ParseScalarType(event.dtype);
    const std::int64_t told = operation.amount == Amount::kOutput ? event.out_elements : event.in_elements;
    std::uint64_t elements =
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(told, 0, INT64_MAX / 4)) * type.multiplier;
    if (operation.function == Function::ncclAlltoAll && event.group_size > 0)
      elements /= static_cast<std::uint64_t>(event.group_size);  // NCCL counts what goes to each
    traced.call.count = elements;
    traced.call.dtype = type.dtype;
    if (functions::IsMessage(operation.function))
      traced.call.root = static_cast<std::int32_t>(std::clamp<std::int64_t>(
          operation.function == Function::ncclSend ? event.destination : event.source, -1, INT32_MAX));
    // Messages share the collectives' numbers or have those of the batch that they are in.
    if (event.sequence > 0 && functions::IsCollective(operation.function)) {
      traced.has_position = true;
      traced.call.position = static_cast<std::uint64_t>(event.sequence) - 1;
    }
    return traced;
  }

  void Keep(const Event& event, TraceCall traced) {
    traced.group = groups_.Of(event);
    places_.push_back({ThreadOf(event), event.began_ns, event.began_ns + event.duration_ns, event.external,
                       window_.trace.calls.size()});
    window_.trace.calls.push_back(std::move(traced));
    if (window_.trace.pid == 0) window_.trace.pid = static_cast<std::uint32_t>(event.process);
  }

  void Begin(const Event& event) {
    places_.push_back({ThreadOf(event), event.began_ns, event.began_ns + event.duration_ns, event.external, SIZE_MAX});
  }

  // ---- once all events are known ----

  void SetProcess(const TraceHeader& header) {
    Trace& trace = window_.trace;
    if (header.rank >= 0 && header.rank <= INT32_MAX) trace.rank = static_cast<int>(header.rank);
    if (header.world_size > 0 && header.world_size <= INT32_MAX) trace.world_size = static_cast<int>(header.world_size);
    if (!header.host.empty()) trace.host = header.host;
  }

  void OrderSteps() {
    std::sort(window_.steps.begin(), window_.steps.end(),
              [](const Step& a, const Step& b) { return a.began_ns < b.began_ns; });
  }

  static bool Before(const Place& a, const Place& b) {
    return std::pair(a.thread, a.began_ns) < std::pair(b.thread, b.began_ns);
  }
  // The innermost one of that thread at that instant.
  const Place* PlaceAt(std::uint64_t thread, std::int64_t at_ns) const {
    constexpr int kDeepest = 8;
    constexpr std::int64_t kRounded_ns = 1000;  // older traces cut instants and durations to whole microseconds
    auto after = std::upper_bound(places_.begin(), places_.end(), Place{thread, at_ns, 0, -1, 0}, Before);
    for (int i = 0; i < kDeepest && after != places_.begin() && (--after)->thread == thread; ++i)
      if (after->ended_ns + kRounded_ns >= at_ns) return &*after;
    return nullptr;
  }

  // An annotation inside of a recorded call tells of the same one.
  void AddAnnotatedCalls() {
    std::sort(places_.begin(), places_.end(), Before);
    std::vector<Place> more;
    for (auto& [place, traced] : annotated_) {
      if (PlaceAt(place.thread, place.began_ns) != nullptr) continue;
      place.call = window_.trace.calls.size();
      more.push_back(place);
      const Function function = traced.call.function;
      if (function == Function::ncclAlltoAll || function == Function::ncclReduceScatter)
        whole_amounts_.push_back(place.call);
      window_.trace.calls.push_back(std::move(traced));
    }
    annotated_.clear();
    places_.insert(places_.end(), more.begin(), more.end());
    std::sort(places_.begin(), places_.end(), Before);
    std::sort(launches_.begin(), launches_.end(),
              [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
  }

  void ResolveGroups(const std::vector<GroupConfig>& told) {
    Trace& trace = window_.trace;
    groups_.Resolve(told, &trace, {&trace.calls, &own_});
    for (const std::size_t i : whole_amounts_) {
      const TraceGroup& group = trace.groups[static_cast<std::size_t>(trace.calls[i].group)];
      const std::size_t size = std::max<std::size_t>(group.ranks.size(), 1);
      trace.calls[i].call.count /= size;
    }
  }

  const Launch* LaunchOf(std::int64_t correlation) const {
    if (correlation < 0) return nullptr;
    const auto found =
        std::lower_bound(launches_.begin(), launches_.end(), correlation,
                         [](const Launch& one, std::int64_t number) { return one.correlation < number; });
    return found != launches_.end() && found->correlation == correlation ? &*found : nullptr;
  }

  // The step in which the host let it begin: the GPU may do it later. Where that is not known, when it began.
  std::int64_t StepAt(std::int64_t at_ns) const {
    const auto after = std::upper_bound(window_.steps.begin(), window_.steps.end(), at_ns,
                                        [](std::int64_t at, const Step& one) { return at < one.began_ns; });
    if (after == window_.steps.begin()) return format::kNoStep;
    const Step& step = *std::prev(after);
    return at_ns <= step.ended_ns ? step.number : format::kNoStep;
  }

  void LinkKernels() {
    absl::flat_hash_map<std::int64_t, std::size_t> by_external;
    for (const Place& place : places_)
      if (place.external > 0 && place.call != SIZE_MAX) by_external.try_emplace(place.external, place.call);
    for (const Kernel& kernel : work_) {
      reader::Operation& one = window_.trace.operations.all[kernel.operation];
      const Launch* const launch = LaunchOf(kernel.correlation);
      one.step = StepAt(launch != nullptr ? launch->at_ns : one.began_ns);
      if (one.kind != OperationKind::kCommunication) continue;
      const Place* const place = launch != nullptr ? PlaceAt(launch->thread, launch->at_ns) : nullptr;
      if (place != nullptr && place->call == SIZE_MAX) {
        LinkBefore(*place, kernel.operation);
        continue;
      }
      const auto by_id = by_external.find(kernel.external);
      const std::size_t call = place != nullptr ? place->call : by_id != by_external.end() ? by_id->second : SIZE_MAX;
      if (call == SIZE_MAX)
        unlinked_.push_back(kernel.operation);
      else
        Link(call, kernel.operation);
    }
    work_ = {};
    launches_ = {};
    window_.unlinked = unlinked_.size();
  }

  // Of calls that the host has put together the kernel begins behind them all.
  void LinkBefore(const Place& begins, std::size_t operation) {
    const auto end = std::lower_bound(places_.begin(), places_.end(), begins, Before);
    bool any = false;
    for (auto at = end; at != places_.begin();) {
      --at;
      if (at->thread != begins.thread || at->call == SIZE_MAX) break;
      if (window_.trace.calls[at->call].operation != SIZE_MAX) break;
      Link(at->call, operation);
      any = true;
    }
    if (!any) unlinked_.push_back(operation);
  }

  // One call may take several kernels: it is as long as they are together.
  void Link(std::size_t place, std::size_t operation) {
    TraceCall& traced = window_.trace.calls[place];
    reader::Operation& one = window_.trace.operations.all[operation];
    format::KernelTime& kernel = traced.call.kernel;
    const KernelFacts& facts = facts_of_[operation];
    if (traced.operation == SIZE_MAX) {
      traced.operation = operation;
      kernel = {static_cast<std::uint64_t>(one.duration_ns), format::KernelClock::kGpu, facts.algorithm, facts.protocol,
                facts.channels};
    } else {
      const reader::Operation& first = window_.trace.operations.all[traced.operation];
      const std::int64_t began = std::min(first.began_ns, one.began_ns);
      kernel.ns = static_cast<std::uint64_t>(
          std::max(first.began_ns + static_cast<std::int64_t>(kernel.ns), one.began_ns + one.duration_ns) - began);
    }
    traced.call.stream = one.lane;
    one.bytes = traced.call.count * functions::DatatypeBytes(traced.call.dtype);
    one.like = window_.trace.NameOf(fmt::format("{} {} {}", functions::OpName(traced.call.function), traced.call.count,
                                                functions::DatatypeName(traced.call.dtype)));
  }

  // Traces of the GPU alone: what its kernels tell of their calls, or their names.
  void MakeCallsOfKernels() {
    window_.from_kernels = !unlinked_.empty();
    Trace& trace = window_.trace;
    if (own_.empty()) {
      for (const std::size_t operation : unlinked_) {
        const Function function = facts_of_[operation].function;
        if (function == Function::kNone) continue;
        TraceCall traced;
        traced.call.function = function;
        traced.operation = operation;
        const auto stream = static_cast<std::uint32_t>(trace.operations.all[operation].lane);
        traced.group = trace.GroupOf({.name = fmt::format("stream {}", stream), .size = trace.world_size});
        own_.push_back(std::move(traced));
      }
    }
    for (TraceCall& traced : own_) {
      const std::size_t operation = std::exchange(traced.operation, SIZE_MAX);
      const reader::Operation& one = trace.operations.all[operation];
      traced.call.entered_ns = one.began_ns;
      traced.call.returned_ns = one.began_ns + std::max<std::int64_t>(one.duration_ns, 1);
      trace.calls.push_back(std::move(traced));
      Link(trace.calls.size() - 1, operation);
    }
    window_.unlinked = unlinked_.size() - std::min(unlinked_.size(), own_.size());
    own_.clear();
  }

  // Of collectives that the host has put together torch numbers all alike: they are one call, of all their elements.
  void MergeCoalesced() {
    std::vector<TraceCall>& calls = window_.trace.calls;
    absl::flat_hash_map<std::pair<int, std::uint64_t>, std::size_t> first_of;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].has_position) {
        const auto [found, fresh] = first_of.try_emplace({calls[i].group, calls[i].call.position}, kept);
        if (!fresh) {
          Merge(calls[i], &calls[found->second]);
          continue;
        }
      }
      if (kept != i) calls[kept] = std::move(calls[i]);
      ++kept;
    }
    calls.resize(kept);
  }
  static void Merge(const TraceCall& other, TraceCall* first) {
    first->call.count += other.call.count;
    if (first->call.dtype != other.call.dtype || first->call.function != other.call.function)
      first->call.dtype = format::kNoType;
    first->call.entered_ns = std::min(first->call.entered_ns, other.call.entered_ns);
    first->call.returned_ns = std::max(first->call.returned_ns, other.call.returned_ns);
    if (first->operation == SIZE_MAX) {
      first->operation = other.operation;
      first->call.kernel = other.call.kernel;
    }
  }

  void AddNotes() {
    Trace& trace = window_.trace;
    const std::size_t most = format::kNoteCapacity / 2;
    const std::size_t first = window_.steps.size() > most ? window_.steps.size() - most : 0;
    for (std::size_t i = 0; i < window_.steps.size(); ++i) {
      const Step& step = window_.steps[i];
      reader::Operation one;
      one.kind = OperationKind::kStep;
      one.began_ns = step.began_ns;
      one.duration_ns = step.ended_ns - step.began_ns;
      one.step = step.number;
      one.lane = kHostLane;
      one.name = one.like = trace.NameOf("ProfilerStep");
      trace.operations.all.push_back(std::move(one));
      if (i < first) continue;
      trace.notes.push_back({format::NoteKind::kStepBegin, step.began_ns, step.number, 0, ""});
      trace.notes.push_back({format::NoteKind::kStepEnd, step.ended_ns, step.number, 0, ""});
    }
  }

  void Shift(std::int64_t base_ns) {
    Trace& trace = window_.trace;
    for (TraceCall& traced : trace.calls) {
      traced.call.entered_ns += base_ns;
      traced.call.returned_ns += base_ns;
    }
    for (reader::Operation& one : trace.operations.all) one.began_ns += base_ns;
    for (reader::Note& note : trace.notes) note.at_ns += base_ns;
    for (Step& step : window_.steps) {
      step.began_ns += base_ns;
      step.ended_ns += base_ns;
    }
  }

  struct KernelFacts {
    format::Algorithm algorithm{};
    format::Protocol protocol{};
    Function function{};
    std::uint8_t channels = 0;
  };

  Window window_;
  Groups groups_;
  std::vector<Launch> launches_;
  std::vector<Place> places_;
  std::vector<std::pair<Place, TraceCall>> annotated_;
  std::vector<TraceCall> own_;              // what kernels tell of their calls
  std::vector<std::size_t> whole_amounts_;  // calls whose count is of all ranks together, not of one as NCCL is told it
  std::vector<Kernel> work_;
  std::vector<std::size_t> unlinked_;
  absl::flat_hash_map<std::size_t, KernelFacts> facts_of_;  // by operation
};

}  // namespace

Window ReadWindow(const std::string& path) {
  Builder builder(path);
  TraceHeader header;
  absl::Status status = ReadEvents(path, &header, [&](const Event& event) { builder.Add(event); });
  return builder.Take(header, std::move(status));
}

Window ParseWindow(std::string_view text, const std::string& path) {
  Builder builder(path);
  TraceHeader header;
  absl::Status status = ParseEvents(text, &header, [&](const Event& event) { builder.Add(event); });
  return builder.Take(header, std::move(status));
}

}  // namespace ncclwatch::analyzer::import::kineto
