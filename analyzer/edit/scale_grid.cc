#include "analyzer/edit/scale_grid.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "core/calls/mpi_message.h"

namespace ncclwatch::analyzer {
namespace {

using GridPlace = std::array<int, 3>;
constexpr int kFewestOfSide = 3;  // fewer, and no rank lies between two others

absl::Status NoGrid(const std::string& why) {
  return absl::FailedPreconditionError("its pattern cannot be continued: " + why);
}

struct Grid {
  GridPlace sides{1, 1, 1};
  std::array<bool, 3> rings{};  // the last rank of the side is a neighbour of the first

  int size() const { return sides[0] * sides[1] * sides[2]; }
  GridPlace PlaceOf(int rank) const {
    return {rank % sides[0], rank / sides[0] % sides[1], rank / sides[0] / sides[1]};
  }
  int RankAt(const GridPlace& place) const { return (place[2] * sides[1] + place[1]) * sides[0] + place[0]; }
  std::string Text() const { return fmt::format("{}x{}x{}", sides[2], sides[1], sides[0]); }
};

bool IsToPeer(const reader::Call& call) {
  return functions::IsMessage(call.function) && call.root >= 0 && (call.flags & format::kNoPartner) == 0;
}

// -1, 0 or 1, along a ring too; none: they are no neighbours.
std::optional<int> GridStep(int from, int to, int side) {
  const int step = to - from;
  if (std::abs(step) <= 1) return step;
  if (std::abs(step) == side - 1) return step > 0 ? -1 : 1;
  return std::nullopt;
}

using PeerPairs = std::set<std::pair<int, int>>;

// In how many dimensions neighbours differ, over all pairs; none: it is no grid of these sides.
std::optional<int> SidesCrossed(const PeerPairs& pairs, Grid* grid) {
  int differ = 0;
  for (const auto& [from, to] : pairs) {
    const GridPlace a = grid->PlaceOf(from), b = grid->PlaceOf(to);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto step = GridStep(a[i], b[i], grid->sides[i]);
      if (!step) return std::nullopt;
      differ += std::abs(*step);
      if (std::abs(b[i] - a[i]) > 1) grid->rings[i] = true;
    }
  }
  return differ;
}

std::optional<Grid> FindGrid(const PeerPairs& pairs, int ranks) {
  std::optional<Grid> best;
  int least = 0;
  for (int x = 1; x <= ranks; ++x)
    for (int y = 1; y <= ranks / x; ++y) {
      if (ranks % (x * y) != 0) continue;
      Grid grid{{x, y, ranks / x / y}, {}};
      const auto differ = SidesCrossed(pairs, &grid);
      if (!differ || (best && *differ >= least)) continue;
      best = grid;
      least = *differ;
    }
  return best;
}

// The sides that grow do so by turns, the shortest first. None: no side of at least three ranks can.
std::optional<Grid> GrownGrid(Grid grid, int times) {
  for (int factor = times; times > 1; factor = times) {
    for (int divisor = 2; divisor * divisor <= times; ++divisor)
      if (times % divisor == 0) factor = divisor;  // the largest one below the root, else all
    int* shortest = nullptr;
    for (int& side : grid.sides)
      if (side >= kFewestOfSide && (!shortest || side < *shortest)) shortest = &side;
    if (!shortest) return std::nullopt;
    *shortest *= factor;
    times /= factor;
  }
  return grid;
}

class GridScaler {
 public:
  GridScaler(const Job& job, const Grid& small, const Grid& large) : job_(job), small_(small), large_(large) {
    for (const reader::BoxImage& box : job.boxes) boxes_[box.rank] = &box;
  }

  absl::StatusOr<Job> Make() {
    Job scaled;
    for (int rank = 0; rank < large_.size(); ++rank) {
      const int like = small_.RankAt(Like(large_.PlaceOf(rank)));
      scaled.boxes.push_back(*boxes_.at(like));
      scaled.was.push_back(like);
      Settle(rank, like, &scaled.boxes.back());
    }
    for (const auto& [channel, messages] : open_)
      if (messages != 0)
        return NoGrid("ranks at like places of its grid " + small_.Text() + " send different messages");
    return scaled;
  }

 private:
  GridPlace Like(const GridPlace& place) const {
    GridPlace like{};
    for (std::size_t i = 0; i < place.size(); ++i) {
      const int side = small_.sides[i], last = large_.sides[i] - 1;
      if (small_.rings[i] || side == large_.sides[i])
        like[i] = place[i] % side;
      else
        like[i] = place[i] == 0 ? 0 : place[i] == last ? side - 1 : 1 + (place[i] - 1) % (side - 2);
    }
    return like;
  }

  int PeerOf(int rank, int like, int peer) const {
    const GridPlace own = large_.PlaceOf(rank), from = small_.PlaceOf(like), to = small_.PlaceOf(peer);
    GridPlace place{};
    for (std::size_t i = 0; i < place.size(); ++i) {
      const int side = large_.sides[i];
      place[i] = (own[i] + *GridStep(from[i], to[i], small_.sides[i]) + side) % side;
    }
    return large_.RankAt(place);
  }

  void Settle(int rank, int like, reader::BoxImage* box) {
    const int copy = copies_[like]++;
    box->rank = rank;
    box->world_size = large_.size();
    for (reader::Communicator& one : box->communicators) {
      if (one.size != static_cast<std::uint32_t>(small_.size())) continue;
      one.rank = static_cast<std::uint32_t>(rank);
      one.size = static_cast<std::uint32_t>(large_.size());
      one.members = nullptr;
    }
    for (reader::Call& call : box->calls) {
      if (!IsToPeer(call)) continue;
      call.root = PeerOf(rank, like, call.root);
      const bool sends = diagnosis::IsSend(call) || call.function == functions::Function::ncclSend;
      open_[{sends ? rank : call.root, sends ? call.root : rank, call.tag}] += sends ? 1 : -1;
    }
    if (copy == 0) return;
    // Other processes, on other hosts.
    box->host = fmt::format("{}-{}", box->host, copy);
    box->node.clear();
    box->start_time += static_cast<std::uint64_t>(copy) << 40;
    box->leader_state = {};
    box->observations.clear();
  }

  const Job& job_;
  const Grid small_, large_;
  std::map<int, const reader::BoxImage*> boxes_;
  std::map<int, int> copies_;                                                   // made of each rank
  absl::flat_hash_map<std::tuple<int, int, std::int32_t>, std::int64_t> open_;  // from, to, tag: sends less receives
};

// Communicators of some ranks, and amounts for single ranks, would have to be told for the larger grid.
absl::Status CheckCommunicators(const Job& job) {
  for (const reader::BoxImage& box : job.boxes) {
    for (const reader::Communicator& one : box.communicators) {
      if (one.size <= 1) continue;
      if (one.size != job.was.size() || static_cast<int>(one.rank) != box.rank)
        return NoGrid(
            "its ranks exchange messages in a grid, and also have communicators of some of them or in another order");
    }
    for (const reader::Call& call : box.calls)
      if ((call.flags & format::kHasParts) != 0)
        return NoGrid(fmt::format("{} says amounts for single ranks", functions::FullName(call.function)));
  }
  return absl::OkStatus();
}

}  // namespace

bool SendsAmongAll(const Job& job) {
  for (const reader::BoxImage& box : job.boxes) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> of_all;
    for (const reader::Communicator& one : box.communicators)
      if (one.size > 1 && one.size == job.was.size()) of_all.insert({one.index, one.generation});
    for (const reader::Call& call : box.calls)
      if (functions::IsMessage(call.function) && of_all.contains({call.communicator, call.generation})) return true;
  }
  return false;
}

absl::Status ScaleGridTo(int ranks, Job* job) {
  if (absl::Status alike = CheckCommunicators(*job); !alike.ok()) return alike;
  const int recorded = static_cast<int>(job->was.size());
  PeerPairs pairs;
  for (const reader::BoxImage& box : job->boxes)
    for (const reader::Call& call : box.calls)
      if (IsToPeer(call) && call.root < recorded) pairs.insert({box.rank, call.root});
  const auto small = FindGrid(pairs, recorded);
  if (!small) return NoGrid("its messages do not go to neighbours in a grid of at most three dimensions");
  const auto large = GrownGrid(*small, ranks / recorded);
  if (!large)
    return NoGrid(
        fmt::format("its grid of {} ranks has no side of at least {}, so that no rank shows what one between two "
                    "others does",
                    small->Text(), kFewestOfSide));
  auto scaled = GridScaler(*job, *small, *large).Make();
  if (!scaled.ok()) return scaled.status();
  *job = *std::move(scaled);
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
