#include "analyzer/stats/tally.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "core/calls/mpi_message.h"
#include "core/waits/mpi_proofs.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using reader::Call;

constexpr unsigned kSubBits = 5;  // of 32 buckets between a power of two and the next

std::size_t BucketOf(std::uint64_t ns) {
  if (ns < (1u << kSubBits)) return ns;
  const unsigned power = static_cast<unsigned>(std::bit_width(ns)) - 1;
  return (std::size_t{power - kSubBits + 1} << kSubBits) + ((ns >> (power - kSubBits)) & ((1u << kSubBits) - 1));
}

std::int64_t MiddleOf(std::size_t bucket) {
  if (bucket < (1u << kSubBits)) return static_cast<std::int64_t>(bucket);
  const unsigned power = static_cast<unsigned>(bucket >> kSubBits) + kSubBits - 1;
  const std::uint64_t width = std::uint64_t{1} << (power - kSubBits);
  return static_cast<std::int64_t>((std::uint64_t{1} << power) + (bucket & ((1u << kSubBits) - 1)) * width + width / 2);
}

std::uint64_t BytesOf(const Call& call) {
  return functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
}

bool Counts(const Call& call) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  return info && info->family != Family::kGroup && (call.flags & format::kPolls) == 0;
}

// 0: it is not over. A request is over once the program learns of it.
std::int64_t OverNs(const Call& call) {
  const bool by_request = (call.flags & (format::kRequest | format::kForgotten)) == format::kRequest;
  return by_request ? call.completed_ns : call.returned_ns;
}

constexpr std::size_t kAllSums = SIZE_MAX;

// A small message lies in a buffer, whether it is received or not; when its program has asked says nothing.
bool WaitsForNobody(const Call& call) {
  return (call.flags & format::kRequest) != 0 && (call.flags & format::kSynchronous) == 0 && diagnosis::IsSend(call) &&
         call.bytes <= diagnosis::kAlwaysBuffered;
}

// The call that waits for the request of another one; null: there is none, or it lies in another piece.
const Call* WaiterOf(const Piece& piece, const Call& call) {
  if (call.waiter == 0) return nullptr;
  const auto found = std::lower_bound(piece.calls.begin(), piece.calls.end(), call.waiter - 1,
                                      [](const Call& one, std::uint64_t slot) { return one.slot < slot; });
  return found != piece.calls.end() && found->slot == call.waiter - 1 ? &*found : nullptr;
}

// Of the second record of an MPI_Sendrecv the first one; null: it is none, or the first one lies in another piece.
const Call* FirstHalf(const Piece& piece, std::size_t at) {
  const Call& call = piece.calls[at];
  if (!diagnosis::IsSecondHalf(call)) return nullptr;
  for (std::size_t i = at; i > 0 && piece.calls[i - 1].slot + 1 >= call.group; --i)
    if (piece.calls[i - 1].slot + 1 == call.group) return &piece.calls[i - 1];
  return nullptr;
}

}  // namespace

void Durations::Add(std::int64_t ns) {
  const std::size_t bucket = BucketOf(static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  most_ = std::max(most_, ns);
}

std::int64_t Durations::Quantile(double part) const {
  auto left = static_cast<std::uint64_t>(part * static_cast<double>(count_));
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (buckets_[bucket] > left) return std::min(MiddleOf(bucket), most_);
    left -= buckets_[bucket];
  }
  return most_;
}

std::int64_t StatsSum::TotalNs() const {
  if (kernels.count() == 0) return total_ns;
  return static_cast<std::int64_t>(static_cast<double>(kernel_ns) / static_cast<double>(kernels.count()) *
                                   static_cast<double>(calls));
}

namespace {

void AddKernel(const format::KernelTime& kernel, StatsSum* sum) {
  sum->kernels.Add(static_cast<std::int64_t>(kernel.ns));
  sum->kernel_ns += static_cast<std::int64_t>(kernel.ns);
  if (!sum->way) sum->way = kernel;
  if (sum->way->algorithm != kernel.algorithm) sum->way->algorithm = format::Algorithm::kUnknown;
  if (sum->way->protocol != kernel.protocol) sum->way->protocol = format::Protocol::kUnknown;
  if (sum->way->channels != kernel.channels) sum->way->channels = 0;
}

void AddPayload(std::string payload, StatsSum* sum) {
  if (payload.empty()) return;
  if (!sum->payload)
    sum->payload = std::move(payload);
  else if (*sum->payload != payload)
    sum->payload->clear();
}

}  // namespace

std::size_t Tally::SumOf(const StatsKey& key) {
  const auto [found, made] = known_.emplace(key, sums_.size());
  if (made) sums_.emplace_back();
  return found->second;
}

std::uint32_t Tally::SiteIndexOf(const Piece& piece, std::uint64_t address, Known* known) {
  const auto [found, made] = known->sites.try_emplace(address);
  if (!made) return found->second;
  Site site = site_of_(piece, address);
  const std::string name = (site.source ? site.source->file : "") + " " + site.text;
  const auto [index, first] = site_indexes_.try_emplace(name, static_cast<std::uint32_t>(sites_.size()));
  if (first) sites_.push_back(std::move(site));
  return found->second = index->second;
}

Tally::Known Tally::KnownOf(const Piece& piece) {
  Known all;
  for (const reader::Communicator& one : piece.communicators) {
    all.communicators[{one.index, one.generation}] = &one;
    StatsComm& known = communicators_[one.id];
    known.size = one.size;
    if (!one.label.empty()) known.label = one.label;
  }
  return all;
}

void Tally::Add(const Piece& piece, Known* known, int rank, std::size_t begin, std::size_t end) {
  RankSum& of_rank = ranks_[rank];
  for (std::size_t i = begin; i < end; ++i) {
    const Call& call = piece.calls[i];
    if (!Counts(call)) continue;
    const Call* const first_half = FirstHalf(piece, i);
    const Call& described = first_half ? *first_half : call;
    const auto found = known->communicators.find({call.communicator, call.generation});
    const reader::Communicator* const on = found == known->communicators.end() ? nullptr : found->second;
    StatsKey key;
    if (by_.op) key.function = call.function;
    if (by_.op) key.dtype = described.dtype;
    if (by_.size) key.bytes = BytesOf(described);
    if (by_.communicator && on) key.communicator = on->id;
    if (by_.rank) key.rank = rank;
    if (by_.site) key.site = SiteIndexOf(piece, call.site, known);
    const std::size_t sum = SumOf(key);
    if (!first_half) {
      ++calls_;
      ++sums_[sum].calls;
      ++of_rank.calls;
    }
    of_rank.bytes += BytesOf(call);
    const bool timed = call.kernel.clock != format::KernelClock::kNone;
    if (timed) AddKernel(call.kernel, &sums_[sum]);
    if (!piece.payloads.empty()) AddPayload(piece.PayloadOf(call), &sums_[sum]);
    if (!first_half && call.returned_ns != 0) {
      const std::int64_t blocked_ns = std::max<std::int64_t>(0, call.returned_ns - call.entered_ns);
      sums_[sum].total_ns += blocked_ns;
      of_rank.total_ns += blocked_ns;
    }
    const std::int64_t over_ns = OverNs(call);
    if (over_ns == 0) continue;
    if (!diagnosis::IsExchange(call.function) || diagnosis::IsSecondHalf(call)) {
      const std::int64_t under_way_ns = std::max<std::int64_t>(0, over_ns - call.entered_ns);
      sums_[sum].under_way_ns += under_way_ns;
      sums_[sum].durations.Add(under_way_ns);
    }
    const std::int64_t real = piece.realtime_minus_monotonic_ns;
    if (!on || on->size < 2) continue;
    const Call* const waiter = WaiterOf(piece, call);
    const std::int64_t waits_ns = WaitsForNobody(call) ? over_ns
                                  : waiter             ? std::max(call.entered_ns, waiter->entered_ns)
                                                       : call.entered_ns;
    const std::uint64_t together = diagnosis::IsExchange(call.function) ? call.group
                                   : waiter && waiter->count > 1        ? call.waiter
                                                                        : 0;
    Meet(*on, call,
         {call.entered_ns + real, over_ns + real, waits_ns + real, together, timed ? call.kernel.ns : 0, rank, sum});
  }
}

void Tally::Meet(const reader::Communicator& on, const Call& call, const Meeting::Side& side) {
  const std::optional<MeetingKey> key = MeetingOf(on, call);
  if (!key) return;
  const std::size_t sides = functions::IsMessage(call.function) ? 2 : on.size;
  Meeting& meeting = meetings_[*key];
  meeting.of_nccl = !functions::IsMpi(call.function);
  meeting.sides.push_back(side);
  if (meeting.sides.size() < sides) return;
  Settle(meeting);
  meetings_.erase(*key);
}

std::int64_t Tally::WaitedNs(const Meeting::Side& side, std::size_t sum, std::int64_t until_ns) {
  if (until_ns <= side.waits_ns) return 0;
  if (side.waiter == 0) return until_ns - side.waits_ns;
  std::int64_t& counted = waited_until_.try_emplace({side.rank, side.waiter, sum}, side.waits_ns).first->second;
  const std::int64_t waited = std::max<std::int64_t>(0, until_ns - counted);
  counted = std::max(counted, until_ns);
  return waited;
}

// The last one to come is waited for by the others, from when they began to wait: until it came, or, where their call
// ended before, until then.
void Tally::Settle(const Meeting& meeting) {
  const auto last = std::max_element(meeting.sides.begin(), meeting.sides.end(),
                                     [](const auto& a, const auto& b) { return a.entered_ns < b.entered_ns; });
  for (const Meeting::Side& side : meeting.sides) {
    const std::int64_t until = meeting.of_nccl ? last->entered_ns : std::min(last->entered_ns, side.over_ns);
    sums_[side.sum].wait_ns += WaitedNs(side, side.sum, until);
    const std::int64_t waited = WaitedNs(side, kAllSums, until);
    ranks_[side.rank].wait_ns += waited;
    ranks_[last->rank].awaited_ns += waited;
  }
  SettleTransfer(meeting);
}

void Tally::SettleTransfer(const Meeting& meeting) {
  const auto shortest = std::min_element(meeting.sides.begin(), meeting.sides.end(),
                                         [](const auto& a, const auto& b) { return a.kernel_ns < b.kernel_ns; });
  if (shortest->kernel_ns == 0) return;
  for (const Meeting::Side& side : meeting.sides) {
    ++sums_[side.sum].transfers;
    sums_[side.sum].transfer_ns += static_cast<std::int64_t>(shortest->kernel_ns);
  }
}

std::vector<std::pair<StatsKey, const StatsSum*>> Tally::sums() const {
  std::vector<std::pair<StatsKey, const StatsSum*>> all;
  for (const auto& [key, index] : known_) all.emplace_back(key, &sums_[index]);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (a.second->TotalNs() != b.second->TotalNs()) return a.second->TotalNs() > b.second->TotalNs();
    const auto order = [](const StatsKey& key) {
      return std::tuple(key.function, key.communicator, key.bytes, key.dtype, key.rank, key.site);
    };
    return order(a.first) < order(b.first);
  });
  return all;
}

}  // namespace ncclwatch::analyzer
