#include "core/nodes/steps_code.h"

#include <algorithm>

#include "core/nodes/bytes.h"
#include "core/nodes/summary.h"

namespace ncclwatch::nodes {
namespace {

using diagnosis::ReportedArrival;
using diagnosis::ReportedKind;
using diagnosis::ReportedPeer;
using diagnosis::ReportedRank;
using diagnosis::ReportedStep;
using diagnosis::StepMessageSum;

constexpr std::size_t kMostBody = 512u << 10;
constexpr std::uint64_t kMostSteps = 1024;  // of one rank in one body
constexpr std::uint64_t kMostRank = 1u << 20;
constexpr std::uint8_t kManyPeers = 1, kStretches = 2;  // flags of a rank
// Of instants and durations: what is made of some of them does not overflow.
constexpr std::uint64_t kMostNs = INT64_MAX / 64;

std::uint64_t Units(std::int64_t ns) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns)) / diagnosis::kReportedUnit_ns;
}
std::int64_t Ns(std::uint64_t units) { return static_cast<std::int64_t>(units) * diagnosis::kReportedUnit_ns; }

void WriteKind(const ReportedKind& kind, Writer* to) {
  to->Number(kind.channel.communicator).Number(kind.channel.generation).Signed(kind.channel.peer);
  to->Byte(kind.channel.sends ? 1 : 0).Number(static_cast<std::uint64_t>(kind.function)).Number(kind.bytes);
  to->Number(kind.calls).Number(kind.alike);
}

ReportedKind ReadKind(Reader* from) {
  ReportedKind kind;
  kind.channel.communicator = from->NumberAs<std::uint32_t>(kMostIndex);
  kind.channel.generation = from->NumberAs<std::uint32_t>();
  kind.channel.peer = from->Signed32();
  kind.channel.sends = from->Byte() != 0;
  kind.function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  kind.bytes = from->Number();
  kind.calls = from->NumberAs<std::uint32_t>();
  kind.alike = from->NumberAs<std::uint32_t>();
  return kind;
}

void WriteMessages(const StepMessageSum& messages, Writer* to) {
  to->Byte(static_cast<std::uint8_t>(messages.first)).Number(messages.sent.size());
  for (const auto& [peer, count] : messages.sent) to->Number(peer).Number(count);
  to->Number(messages.kernels.size());
  for (const auto& [bytes, one] : messages.kernels)
    to->Number(bytes).Number(one.units).Number(one.timed).Number(Units(one.ns)).Number(Units(one.least_ns));
}

StepMessageSum ReadMessages(std::size_t peers, Reader* from) {
  StepMessageSum messages;
  const std::uint8_t first = from->Byte();
  if (first > static_cast<std::uint8_t>(StepMessageSum::First::kBoth)) from->Fail();
  messages.first = static_cast<StepMessageSum::First>(first);
  for (std::uint64_t left = from->NumberUpTo(peers); left > 0 && from->ok(); --left) {
    const std::uint64_t peer = from->NumberUpTo(peers - 1);
    messages.sent[peer] = from->NumberAs<std::uint32_t>();
  }
  for (std::uint64_t left = from->NumberUpTo(diagnosis::kMostSizes); left > 0 && from->ok(); --left) {
    StepMessageSum::Kernels& one = messages.kernels[from->Number()];
    one.units = from->NumberAs<std::uint32_t>();
    one.timed = from->NumberAs<std::uint32_t>();
    one.ns = Ns(from->NumberUpTo(Units(kMostNs)));
    one.least_ns = Ns(from->NumberUpTo(Units(kMostNs)));
  }
  return messages;
}

// Numbers that grow as they did from the step before are short.
class StepWriter {
 public:
  explicit StepWriter(std::size_t kinds) : positions_(kinds) {}

  void Write(const ReportedStep& step, Writer* to) {
    to->Number(step.number - number_).Number(Units(step.began_ns) - Units(began_ns_));
    to->Number(Units(step.duration_ns)).Number(Units(step.exposed_ns)).Number(Units(step.message_ns));
    to->Number(step.arrivals.size());
    for (const ReportedArrival& one : step.arrivals) {
      to->Number(one.kind).Signed(static_cast<std::int64_t>(one.position - positions_[one.kind]));
      to->Number(one.entered).Number(one.inside).Number(one.kernel);
      positions_[one.kind] = one.position;
    }
    WriteMessages(step.messages, to);
    number_ = step.number;
    began_ns_ = step.began_ns;
  }

 private:
  std::uint64_t number_ = 0;
  std::int64_t began_ns_ = 0;
  std::vector<std::uint64_t> positions_;  // by kind
};

class StepReader {
 public:
  StepReader(std::size_t kinds, std::size_t peers) : peers_(peers), positions_(kinds) {}

  ReportedStep Read(Reader* from) {
    ReportedStep step;
    step.number = number_ += from->Number();
    began_ += from->NumberUpTo(Units(kMostNs));
    if (began_ > Units(kMostNs)) from->Fail();
    step.began_ns = from->ok() ? Ns(began_) : 0;
    step.duration_ns = Ns(from->NumberUpTo(Units(kMostNs)));
    step.exposed_ns = Ns(from->NumberUpTo(Units(kMostNs)));
    step.message_ns = Ns(from->NumberUpTo(Units(kMostNs)));
    for (std::uint64_t left = from->NumberUpTo(diagnosis::kMostArrivals); left > 0 && from->ok(); --left) {
      ReportedArrival one;
      one.kind = from->NumberAs<std::uint16_t>();
      const std::int64_t by = from->Signed();
      one.entered = from->NumberAs<std::uint32_t>(diagnosis::kMostUnits);
      one.inside = from->NumberAs<std::uint32_t>(diagnosis::kMostUnits);
      one.kernel = from->NumberAs<std::uint32_t>(diagnosis::kMostUnits);
      if (one.kind >= positions_.size()) from->Fail();
      if (!from->ok()) break;
      one.position = positions_[one.kind] += static_cast<std::uint64_t>(by);
      step.arrivals.push_back(one);
    }
    if (from->ok()) step.messages = ReadMessages(peers_, from);
    from->Made(sizeof(ReportedStep) + step.arrivals.size() * sizeof(ReportedArrival));
    return step;
  }

 private:
  const std::size_t peers_;
  std::uint64_t number_ = 0, began_ = 0;
  std::vector<std::uint64_t> positions_;
};

void WriteRank(const ReportedRank& rank, Writer* to) {
  to->Number(rank.pid)
      .Number(rank.start_time)
      .Number(rank.pid_namespace)
      .Byte(static_cast<std::uint8_t>((rank.many_peers ? kManyPeers : 0) | (rank.stretches ? kStretches : 0)));
  to->Number(rank.kinds.size());
  for (const ReportedKind& kind : rank.kinds) WriteKind(kind, to);
  to->Number(rank.peers.size());
  for (const ReportedPeer& peer : rank.peers) to->Number(peer.communicator).Number(peer.generation).Signed(peer.rank);
  to->Number(rank.steps.size());
  StepWriter writer(rank.kinds.size());
  for (const ReportedStep& step : rank.steps) writer.Write(step, to);
}

ReportedRank ReadRank(Reader* from) {
  ReportedRank rank;
  rank.pid = from->NumberAs<std::uint32_t>();
  rank.start_time = from->Number();
  rank.pid_namespace = from->Number();
  const std::uint8_t flags = from->Byte();
  rank.many_peers = (flags & kManyPeers) != 0;
  rank.stretches = (flags & kStretches) != 0;
  for (std::uint64_t left = from->NumberUpTo(diagnosis::kMostKinds); left > 0 && from->ok(); --left)
    rank.kinds.push_back(ReadKind(from));
  for (std::uint64_t left = from->NumberUpTo(diagnosis::kMostPeers); left > 0 && from->ok(); --left) {
    ReportedPeer& peer = rank.peers.emplace_back();
    peer.communicator = from->NumberAs<std::uint32_t>(kMostIndex);
    peer.generation = from->NumberAs<std::uint32_t>();
    peer.rank = from->Signed32();
    if (peer.rank > static_cast<std::int32_t>(kMostRank)) from->Fail();
  }
  StepReader reader(rank.kinds.size(), rank.peers.size());
  for (std::uint64_t left = from->NumberUpTo(kMostSteps); left > 0 && from->ok(); --left)
    rank.steps.push_back(reader.Read(from));
  return rank;
}

}  // namespace

std::vector<std::string> WriteSteps(const std::vector<ReportedRank>& ranks) {
  std::vector<std::string> bodies;
  Writer body;
  for (const ReportedRank& rank : ranks) {
    if (rank.steps.empty()) continue;
    if (body.size() == 0) body.Byte(kWireVersion).Text(rank.boot_id, kMostName);
    body.Byte(1);
    WriteRank(rank, &body);
    if (body.size() < kMostBody) continue;
    bodies.push_back(body.Byte(0).Take());
    body = {};
  }
  if (body.size() > 0) bodies.push_back(body.Byte(0).Take());
  return bodies;
}

std::optional<std::vector<ReportedRank>> ReadSteps(std::string_view body) {
  Reader from(body);
  if (from.Byte() != kWireVersion) return std::nullopt;
  const std::string boot_id(from.Text(kMostName));
  std::vector<ReportedRank> ranks;
  while (from.Byte() == 1 && from.ok() && ranks.size() < kMostProcesses) {
    ranks.push_back(ReadRank(&from));
    ranks.back().boot_id = boot_id;
  }
  if (!from.Done()) return std::nullopt;
  return ranks;
}

}  // namespace ncclwatch::nodes
