#include "analyzer/compare/first_difference.h"

#include <fmt/core.h>

#include <map>
#include <utility>

#include "analyzer/jobs/locate.h"
#include "analyzer/recording/recording.h"
#include "analyzer/trace/facts.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::compare {
namespace {

using analyzer::Piece;
using analyzer::ProcessRecording;
using analyzer::Recording;

// Looking whether something is there depends on time: how often is no difference.
bool IsPoll(const reader::Call& call) { return (call.flags & format::kPolls) != 0; }

class Calls {
 public:
  explicit Calls(const ProcessRecording& process) : pieces_(process) {}
  // Null: there is no more.
  const reader::Call* Next() {
    while (true) {
      for (; at_ < piece_.calls.size(); ++at_)
        if (!IsPoll(piece_.calls[at_])) return &piece_.calls[at_++];
      at_ = 0;
      if (!pieces_.Next(&piece_, &failures_)) return nullptr;
    }
  }

 private:
  analyzer::PieceReader pieces_;
  std::vector<reader::Failure> failures_;
  Piece piece_;
  std::size_t at_ = 0;
};

bool AreAlike(const reader::Call& a, const reader::Call& b) {
  return a.function == b.function && a.count == b.count && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root;
}

std::string TextOf(const reader::Call* call) {
  if (!call) return "";
  std::string text = analyzer::OpText(call->function);
  if (call->count > 0) text += fmt::format(", {} {}", call->count, analyzer::DtypeText(call->dtype));
  if (const std::string reduction = analyzer::ReductionText(call->reduction); !reduction.empty())
    text += ", " + reduction;
  if (call->root != format::kNoRank) text += fmt::format(", root or peer {}", call->root);
  return text;
}

std::map<int, const ProcessRecording*> ByRank(const Recording& recording) {
  std::map<int, const ProcessRecording*> all;
  for (const ProcessRecording& process : recording.processes())
    if (process.rank() >= 0) all.try_emplace(process.rank(), &process);
  return all;
}

std::optional<FirstDifference> InRank(int rank, const ProcessRecording& before, const ProcessRecording& after) {
  Calls a(before), b(after);
  for (std::uint64_t number = 0;; ++number) {
    const reader::Call *x = a.Next(), *y = b.Next();
    if (!x && !y) return std::nullopt;
    if (x && y && AreAlike(*x, *y)) continue;
    return FirstDifference{rank, number, TextOf(x), TextOf(y)};
  }
}

}  // namespace

std::optional<FirstDifference> FindFirstDifference(const std::string& before, const std::string& after,
                                                   std::string* why_not) {
  const auto a = analyzer::Locate({before}), b = analyzer::Locate({after});
  if (!a.ok() || !b.ok()) return std::nullopt;
  const Recording first = Recording::Open(*a), second = Recording::Open(*b);
  const auto ranks = ByRank(first), others = ByRank(second);
  std::optional<FirstDifference> found;
  for (const auto& [rank, process] : ranks) {
    const auto other = others.find(rank);
    if (other == others.end()) continue;
    if (process->lost_calls() > 0 || other->second->lost_calls() > 0) {
      *why_not =
          "the first difference is not looked for: calls of a run are lost (record it: `ncclwatch run --record DIR`)";
      return std::nullopt;
    }
    const auto one = InRank(rank, *process, *other->second);
    if (one && (!found || one->call < found->call)) found = one;
  }
  return found;
}

}  // namespace ncclwatch::compare
