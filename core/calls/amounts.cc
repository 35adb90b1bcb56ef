#include "core/calls/amounts.h"

#include <algorithm>

#include "core/calls/mpi_types.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Part;

// One part alone goes to the root, or comes from it.
const Part* PartFor(const std::vector<Part>& parts, std::uint32_t rank, std::int32_t root) {
  if (parts.size() == 1) return root >= 0 && rank == static_cast<std::uint32_t>(root) ? &parts[0] : nullptr;
  return rank < parts.size() ? &parts[rank] : nullptr;
}

std::uint64_t PairHash(std::uint32_t from, std::uint32_t to, const Part& part) {
  return format::Mix(std::uint64_t{from} << 32 | to, part.what);
}

template <typename Visit>
void ForEachPart(const std::vector<Part>& parts, std::int32_t root, const Visit& visit) {
  if (parts.size() == 1 && root >= 0) return visit(static_cast<std::uint32_t>(root), parts[0]);
  for (std::uint32_t rank = 0; rank < parts.size(); ++rank) visit(rank, parts[rank]);
}

std::vector<const Part*> AmountsWith(const std::vector<Part>& parts, std::uint32_t rank) {
  std::vector<const Part*> amounts;
  for (const Edge& edge : EdgesOf(parts))
    if (edge.rank == rank) amounts.push_back(edge.amount);
  return amounts;
}

PairSum SumOfEdges(const reader::CallParts& parts, std::uint32_t rank) {
  PairSum sum;
  for (const Edge& edge : EdgesOf(parts.sends)) {
    sum.known = sum.known && edge.amount->what != 0;
    sum.sum += PairHash(rank, edge.rank, *edge.amount);
  }
  for (const Edge& edge : EdgesOf(parts.receives)) {
    sum.known = sum.known && edge.amount->what != 0;
    sum.sum -= PairHash(edge.rank, rank, *edge.amount);
  }
  return sum;
}

}  // namespace

bool IsOfNeighbours(const reader::Call& call) {
  return functions::FullName(call.function).find("eighbor_") != std::string_view::npos;
}

std::vector<Edge> EdgesOf(const std::vector<Part>& parts) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) edges.push_back({parts[i].what, &parts[i + 1]});
  return edges;
}

OddEdge OddEdgeBetween(const reader::CallParts& sender, std::uint32_t sender_rank, const reader::CallParts& receiver,
                       std::uint32_t receiver_rank) {
  std::vector<const Part*> sent = AmountsWith(sender.sends, receiver_rank);
  std::vector<const Part*> expected = AmountsWith(receiver.receives, sender_rank);
  const auto unknown = [](const Part* part) { return part->what == 0; };
  // Only one of the two names the other as its neighbour, or as often.
  if (sent.size() > expected.size()) return {sent.back(), nullptr};
  if (sent.size() < expected.size()) return {nullptr, expected.back()};
  if (std::any_of(sent.begin(), sent.end(), unknown) || std::any_of(expected.begin(), expected.end(), unknown))
    return {};
  // What both say is taken away.
  for (auto one = sent.begin(); one != sent.end();) {
    const auto same = std::find_if(expected.begin(), expected.end(),
                                   [&](const Part* part) { return ClashOf(**one, *part) == PartClash::kNone; });
    if (same == expected.end()) {
      ++one;
      continue;
    }
    expected.erase(same);
    one = sent.erase(one);
  }
  return sent.empty() ? OddEdge{} : OddEdge{sent.front(), expected.front()};
}

const Part* SentTo(const reader::CallParts& parts, std::uint32_t rank) {
  return PartFor(parts.sends, rank, parts.call.root);
}

const Part* ReceivedFrom(const reader::CallParts& parts, std::uint32_t rank) {
  return PartFor(parts.receives, rank, parts.call.root);
}

PartClash ClashOf(const Part& sent, const Part& received) {
  if (sent.what == 0 || received.what == 0 || sent.what == received.what) return PartClash::kNone;
  if (sent.dtype == kPackedType || received.dtype == kPackedType) return PartClash::kNone;
  if (sent.bytes != received.bytes) return PartClash::kSizes;
  const bool alike = sent.dtype == kByteType || received.dtype == kByteType ||
                     AreAliases(sent.dtype, sent.element, received.dtype, received.element);
  return alike ? PartClash::kLikely : PartClash::kTypes;
}

PairSum SumOf(const reader::CallParts& parts, std::uint32_t rank) {
  if (IsOfNeighbours(parts.call)) return SumOfEdges(parts, rank);
  PairSum sum;
  const Part* own_sent = SentTo(parts, rank);
  const Part* own_received = ReceivedFrom(parts, rank);
  const bool own_known =
      own_sent != nullptr && own_received != nullptr && own_sent->what != 0 && own_received->what != 0;
  const auto add = [&](std::uint32_t other, const Part& part, bool sends) {
    if (other == rank && !own_known) return;
    sum.known = sum.known && part.what != 0;
    const std::uint64_t hash = sends ? PairHash(rank, other, part) : PairHash(other, rank, part);
    sum.sum += sends ? hash : 0 - hash;
  };
  ForEachPart(parts.sends, parts.call.root, [&](std::uint32_t to, const Part& part) { add(to, part, true); });
  ForEachPart(parts.receives, parts.call.root, [&](std::uint32_t from, const Part& part) { add(from, part, false); });
  return sum;
}

}  // namespace ncclwatch::diagnosis
