#include "analyzer/import/kineto/read.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/import/base/in_parallel.h"
#include "analyzer/import/kineto/align.h"
#include "analyzer/import/kineto/process.h"
#include "core/model/text.h"
#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

std::vector<Window> ReadAll(const std::vector<std::string>& files, FilesRead done) {
  std::vector<Window> windows(files.size());
  InParallel(
      files.size(), [&](std::size_t i) { windows[i] = ReadWindow(files[i]); }, done);
  return windows;
}

bool IsEmpty(const Window& window) {
  return window.trace.calls.empty() && window.trace.operations.all.empty() && window.steps.empty();
}

std::pair<std::int64_t, std::int64_t> Span(const Window& window) {
  std::pair<std::int64_t, std::int64_t> span{INT64_MAX, INT64_MIN};
  const auto add = [&](std::int64_t began, std::int64_t ended) {
    span = {std::min(span.first, began), std::max(span.second, ended)};
  };
  for (const TraceCall& one : window.trace.calls) add(one.call.entered_ns, one.call.returned_ns);
  for (const reader::Operation& one : window.trace.operations.all) add(one.began_ns, one.began_ns + one.duration_ns);
  return span;
}

// In the order of the files' names, as good as any.
std::vector<std::string> SetRanks(std::vector<Window>* windows) {
  std::set<int> taken;
  for (const Window& window : *windows) taken.insert(window.trace.rank);
  std::vector<std::string> given;
  int next = 0;
  for (Window& window : *windows) {
    if (window.trace.rank >= 0) continue;
    while (taken.contains(next)) ++next;
    taken.insert(window.trace.rank = next);
    given.push_back(fmt::format("{}: rank {}", window.trace.path.substr(window.trace.path.rfind('/') + 1), next));
  }
  return given;
}

void SetWorld(std::vector<Window>* windows) {
  int size = 0;
  for (const Window& window : *windows) size = std::max({size, window.trace.rank + 1, window.trace.world_size});
  size = std::min(size, static_cast<int>(reader::kMaxCommunicatorSize));
  for (Window& window : *windows) window.trace.world_size = size;
}

using OfRank = std::vector<Window*>;  // in order of time

// Two that overlap cannot both be windows of one rank.
std::map<int, OfRank> ByRank(std::vector<Window>* windows, Imported* imported) {
  std::map<int, OfRank> of;
  for (Window& window : *windows) of[window.trace.rank].push_back(&window);
  for (auto& [rank, own] : of) {
    std::stable_sort(own.begin(), own.end(), [](const Window* a, const Window* b) { return Span(*a) < Span(*b); });
    OfRank kept;
    for (Window* const window : own) {
      if (!kept.empty() && Span(*window).first < Span(*kept.back()).second)
        imported->failures.push_back(
            {window->trace.path,
             fmt::format("a second trace of rank {} at the time of {}: left out", rank, kept.back()->trace.path)});
      else
        kept.push_back(window);
    }
    own = std::move(kept);
  }
  return of;
}

std::set<std::string> AlignAll(const std::map<int, OfRank>& ranks) {
  constexpr int kBitsOfWindow = 24;  // more calls than that fit into no window
  std::size_t most = 0;
  for (const auto& [rank, own] : ranks) most = std::max(most, own.size());
  std::set<std::string> unmatched;
  for (std::size_t i = 0; i < most; ++i) {
    std::vector<Window*> together;
    for (const auto& [rank, own] : ranks)
      if (i < own.size()) together.push_back(own[i]);
    Aligned aligned = Align(std::uint64_t{i} << kBitsOfWindow, together);
    unmatched.insert(aligned.unmatched.begin(), aligned.unmatched.end());
  }
  return unmatched;
}

int PlaceOf(const TraceGroup& group, Trace* whole) {
  for (std::size_t i = 0; i < whole->groups.size(); ++i) {
    TraceGroup& one = whole->groups[i];
    if (one.name != group.name || one.ranks != group.ranks) continue;
    one.compared_from = std::max(one.compared_from, group.compared_from);
    one.entered = std::max(one.entered, group.entered);
    return static_cast<int>(i);
  }
  whole->groups.push_back(group);
  return static_cast<int>(whole->groups.size()) - 1;
}

void Append(Window window, Trace* whole) {
  Trace& part = window.trace;
  std::vector<int> place;
  for (const TraceGroup& group : part.groups) place.push_back(PlaceOf(group, whole));
  const std::size_t operations = whole->operations.all.size();
  for (TraceCall& traced : part.calls) {
    if (traced.group >= 0) traced.group = place[static_cast<std::size_t>(traced.group)];
    if (traced.operation != SIZE_MAX) traced.operation += operations;
    whole->calls.push_back(std::move(traced));
  }
  for (reader::Operation& one : part.operations.all) {
    one.name = whole->NameOf(part.operations.names[one.name]);
    one.like = whole->NameOf(part.operations.names[one.like]);
    whole->operations.all.push_back(std::move(one));
  }
  whole->notes.insert(whole->notes.end(), part.notes.begin(), part.notes.end());
}

Trace Joined(const OfRank& windows) {
  Trace whole = std::move(windows.front()->trace);
  for (std::size_t i = 1; i < windows.size(); ++i) Append(std::move(*windows[i]), &whole);
  return whole;
}

void AddNotes(const std::vector<Window>& windows, const std::vector<std::string>& given,
              const std::set<std::string>& unmatched, Imported* imported) {
  std::vector<std::string>& notes = imported->notes;
  std::uint64_t unknown = 0, unlinked = 0;
  bool from_kernels = false;
  for (const Window& window : windows) {
    unknown += window.unknown;
    unlinked += window.unlinked;
    from_kernels |= window.from_kernels;
  }
  notes.push_back(
      "from traces of torch's profiler: windows that begin and end a little apart on each rank, without reductions, "
      "roots and calls that did not end");
  if (!given.empty()) notes.push_back("no rank told, taken in the order of names: " + absl::StrJoin(given, ", "));
  if (from_kernels) notes.push_back("traces without calls of the host: kernels of NCCL stand for them");
  if (unlinked > 0)
    notes.push_back(diagnosis::Plural(unlinked, "kernel") + " of NCCL whose call the traces do not hold");
  if (unknown > 0)
    notes.push_back(diagnosis::Plural(unknown, "call") + " of operations that are not known here: left out");
  if (!unmatched.empty())
    notes.push_back("which calls of its ranks are the same one is not known, so they are not compared: " +
                    absl::StrJoin(unmatched, ", "));
}

}  // namespace

void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done) {
  std::vector<Window> windows = ReadAll(files, done);
  for (const Window& window : windows)
    if (!window.status.ok()) imported->failures.push_back({window.trace.path, std::string(window.status.message())});
  std::erase_if(windows, [](const Window& window) { return IsEmpty(window) && !window.status.ok(); });
  const std::vector<std::string> given = SetRanks(&windows);
  SetWorld(&windows);
  const std::map<int, OfRank> ranks = ByRank(&windows, imported);
  const std::set<std::string> unmatched = AlignAll(ranks);
  AddNotes(windows, given, unmatched, imported);
  for (const auto& [rank, own] : ranks) take(Joined(own));
}

}  // namespace ncclwatch::analyzer::import::kineto
