#include "analyzer/edit/scale.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "analyzer/edit/scale_grid.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer {
namespace {

absl::Status Cannot(const std::string& why) {
  return absl::FailedPreconditionError("its pattern cannot be continued: " + why);
}

std::string Named(const reader::Communicator& one) {
  return one.label.empty() ? fmt::format("communicator {:016x}", one.id) : "communicator " + one.label;
}

class Scaler {
 public:
  Scaler(const Job& job, int copies) : job_(job), copies_(copies), ranks_(static_cast<int>(job.was.size())) {}

  absl::Status Check() {
    for (const reader::BoxImage& box : job_.boxes)
      for (const reader::Communicator& one : box.communicators) AddMember(one, box.rank);
    for (const auto& [id, of] : known_)
      if (absl::Status status = Decide(of); !status.ok()) return status;
    for (const reader::BoxImage& box : job_.boxes)
      if (absl::Status status = CheckCalls(box); !status.ok()) return status;
    return absl::OkStatus();
  }

  Job Make() const {
    Job scaled;
    for (int copy = 0; copy < copies_; ++copy)
      for (const reader::BoxImage& box : job_.boxes) scaled.boxes.push_back(Copy(box, copy));
    for (int rank = 0; rank < copies_ * ranks_; ++rank) scaled.was.push_back(rank % ranks_);
    return scaled;
  }

 private:
  struct Known {
    reader::Communicator one;
    std::map<std::uint32_t, int> members;  // job ranks, by rank in it
  };

  void AddMember(const reader::Communicator& one, int rank) {
    Known& known = known_[one.id];
    if (known.members.empty()) known.one = one;
    known.members[one.rank] = rank;
  }

  absl::Status Decide(const Known& of) {
    const std::uint32_t size = of.one.size;
    if (size <= 1) return absl::OkStatus();  // made again
    if ((of.one.flags & (format::kCommInter | format::kCommRankUnknown)) != 0 || of.members.size() != size)
      return Cannot(Named(of.one) + " has members that are not known");
    std::vector<int> ranks;
    for (const auto& [place, rank] : of.members) ranks.push_back(rank);
    const int stride = ranks[1] - ranks[0];
    for (std::size_t i = 1; i < ranks.size(); ++i)
      if (ranks[i] - ranks[i - 1] != stride || stride < 1)
        return Cannot(Named(of.one) + " is neither of ranks that follow one another nor of equally spaced ones");
    const bool all = static_cast<int>(size) == ranks_;
    const bool one_of_each = stride > 1 && ranks.front() < stride && ranks.back() + stride >= ranks_;
    if (stride > 1 && !one_of_each) return Cannot(Named(of.one) + " has ranks of a part of the job alone");
    if (all || one_of_each) grows_[of.one.id] = size;
    return absl::OkStatus();
  }

  // Who sends to whom among more ranks, or how much to each, the recording does not tell.
  absl::Status CheckCalls(const reader::BoxImage& box) const {
    for (const reader::Communicator& one : box.communicators) {
      if (!grows_.contains(one.id)) continue;
      for (const reader::Call& call : box.calls) {
        if (call.communicator != one.index || call.generation != one.generation) continue;
        if (functions::IsMessage(call.function))
          return Cannot(fmt::format("there are messages on {}, which would grow", Named(one)));
        if ((call.flags & format::kHasParts) != 0)
          return Cannot(fmt::format("{} on {}, which would grow, says amounts for single ranks",
                                    functions::FullName(call.function), Named(one)));
      }
    }
    return absl::OkStatus();
  }

  std::uint64_t IdOf(std::uint64_t id, int copy) const {
    return id == 0 || copy == 0 || grows_.contains(id) ? id : format::Mix(id, static_cast<std::uint64_t>(copy));
  }

  reader::BoxImage Copy(const reader::BoxImage& from, int copy) const {
    reader::BoxImage box = from;
    box.rank += copy * ranks_;
    box.world_size = copies_ * ranks_;
    for (reader::Communicator& one : box.communicators) {
      if (const auto grown = grows_.find(one.id); grown != grows_.end()) {
        one.rank += static_cast<std::uint32_t>(copy) * grown->second;
        one.size *= static_cast<std::uint32_t>(copies_);
      }
      one.id = IdOf(one.id, copy);
      one.parent = IdOf(one.parent, copy);
      one.members = nullptr;
    }
    if (copy == 0) return box;
    // Other processes, on other hosts.
    box.host = fmt::format("{}-{}", from.host, copy);
    box.node.clear();
    box.start_time += static_cast<std::uint64_t>(copy) << 40;
    box.leader_state = {};
    box.observations.clear();
    return box;
  }

  const Job& job_;
  const int copies_, ranks_;
  std::map<std::uint64_t, Known> known_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> grows_;  // communicators, with their size
};

}  // namespace

absl::Status ScaleTo(int ranks, Job* job) {
  const int recorded = static_cast<int>(job->was.size());
  if (recorded < 2 || job->boxes.size() != job->was.size())
    return Cannot(
        fmt::format("{} of {} ranks are recorded, and there must be two at least", job->boxes.size(), recorded));
  if (ranks < recorded || ranks % recorded != 0)
    return Cannot(fmt::format("{} is no multiple of its {} ranks", ranks, recorded));
  std::uint64_t calls = 0;
  for (const reader::BoxImage& box : job->boxes) calls += box.calls.size();
  if (calls * static_cast<std::uint64_t>(ranks / recorded) > kMostCalls)
    return absl::OutOfRangeError(fmt::format("would have more than {} calls on {} ranks", kMostCalls, ranks));
  if (SendsAmongAll(*job)) return ScaleGridTo(ranks, job);
  Scaler scaler(*job, ranks / recorded);
  if (absl::Status status = scaler.Check(); !status.ok()) return status;
  *job = scaler.Make();
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
