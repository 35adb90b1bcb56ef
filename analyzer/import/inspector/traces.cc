#include "analyzer/import/inspector/traces.h"

#include <fmt/core.h>

#include <map>
#include <utility>

#include "analyzer/import/inspector/read.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

using ProcessKey = std::pair<std::string, std::uint32_t>;  // host, pid

// The lines do not tell job ranks: that of the largest communicator stands for it.
struct Source {
  Trace trace;
  int size = 0;
};

TraceCall CallOf(const Member& member, const Operation& operation, int group) {
  TraceCall traced;
  reader::Call& call = traced.call;
  call.function = operation.function;
  call.entered_ns = operation.called_ns != 0 ? operation.called_ns : operation.written_ns;
  call.returned_ns = call.entered_ns + 1;
  call.count = call.bytes = operation.bytes;
  call.dtype = 0;  // bytes: the lines tell no other
  if (operation.is_message) call.root = operation.peer;
  if (operation.kernel_ns > 0)
    call.kernel = {static_cast<std::uint64_t>(operation.kernel_ns), format::KernelClock::kGpu, {}, {}, 0};
  if (member.size == 1) call.flags |= format::kOneRank;
  traced.group = group;
  return traced;
}

}  // namespace

void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done) {
  const Recording recording = Read(files, [&](std::size_t count) { done(count); });
  for (const std::string& complaint : recording.complaints) imported->failures.push_back({complaint, "left out"});
  std::map<ProcessKey, Source> processes;
  for (const auto& [member, operations] : recording.operations) {
    Source& process = processes[{member.host, member.pid}];
    Trace& trace = process.trace;
    trace.host = member.host;
    trace.pid = member.pid;
    if (member.size > process.size) {
      process.size = trace.world_size = member.size;
      trace.rank = member.rank;
    }
    const std::string name = member.label.empty() ? member.communicator : member.label;
    const int group = trace.GroupOf({.name = member.communicator + name, .size = member.size, .rank = member.rank});
    trace.groups[static_cast<std::size_t>(group)].label = name;
    for (const Operation& operation : operations) trace.calls.push_back(CallOf(member, operation, group));
  }
  imported->notes.push_back(
      "from NCCL Inspector's lines: they hold sizes in bytes, no types, reductions, roots or streams, and no call that "
      "did not end");
  if (recording.passed_over > 0)
    imported->notes.push_back(fmt::format("the oldest {} operations were left out", recording.passed_over));
  for (auto& [key, process] : processes) take(std::move(process.trace));
}

}  // namespace ncclwatch::analyzer::import::inspector
