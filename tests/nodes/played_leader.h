// The leader of one node as its hub sees it: exchange, summaries and answers are the product's, the boxes that they
// tell of are made up. One thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/live/live_compare.h"
#include "core/nodes/messages.h"
#include "core/nodes/reporter.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::testing {

using functions::Function;

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr std::int64_t kTick_ns = 100 * kMs;
inline constexpr int kStepsPerTick =
    2;  // 20 collectives a second on the world, as many on each node's own communicator
inline constexpr std::uint64_t kWorld = 77;
inline constexpr std::uint64_t kCount = 1024;
inline constexpr std::uint8_t kFloat32 = 7, kSum = 0;
inline constexpr char kSecret[] = "leaders on loopback";

struct Options {
  int leaders = 1250, ranks = 8;
  std::string exchange = "tcp://127.0.0.1:29777", fault = "missing";
  double healthy_s = 20, limit_s = 5;
  exchange::Token token = exchange::TokenOfSecret(kSecret);
};

struct Fault {
  std::atomic<bool> planted{false};
  std::string kind;
  int rank = -1;
  std::uint64_t position = 0;  // the collective of the world that it is about
  std::int64_t at_ns = 0;
};

// The chain over so many collectives: all of one shape, but for the fault's.
inline std::uint64_t ChainOver(std::uint64_t count, const Fault& fault, int rank) {
  static std::map<std::uint64_t, std::uint64_t> known = {{0, 0}};
  const auto shape = [](std::uint64_t elements) {
    return format::Fingerprint(Function::ncclAllReduce, elements, kFloat32, kSum, format::kNoRank, 0);
  };
  auto at = std::prev(known.upper_bound(count));
  while (at->first < count) at = known.emplace(at->first + 1, format::Chain(at->second, shape(kCount))).first;
  const bool odd = fault.planted && fault.kind == "mismatch" && rank == fault.rank && count > fault.position;
  return odd ? format::Chain(known[count - 1], shape(kCount + 1)) : known[count];
}

inline reader::Call CallAt(std::uint64_t position, std::int64_t entered_ns, bool inside, const Fault& fault, int rank) {
  reader::Call call;
  call.slot = position;
  call.position = position;
  call.entered_ns = entered_ns;
  call.returned_ns = inside ? 0 : entered_ns + kMs;
  call.result = inside ? format::kNoResult : 0;
  call.count = kCount;
  const bool odd = fault.planted && fault.kind == "mismatch" && rank == fault.rank && position == fault.position;
  if (odd) ++call.count;
  call.chain = ChainOver(position + 1, fault, rank);
  call.stream = 0x7f00;
  call.site = 0x4242;
  call.function = Function::ncclAllReduce;
  call.communicator = 0;
  call.dtype = kFloat32;
  call.reduction = kSum;
  call.thread = static_cast<std::uint32_t>(rank + 1);
  return call;
}

class PlayedLeader {
 public:
  PlayedLeader(const Options& options, const exchange::Address& address, int number)
      : options_(options), number_(number) {
    exchange::Setup setup;
    setup.address = address;
    setup.self = {"played" + std::to_string(number), Host(), 1, false};
    setup.tokens = {options.token};
    setup.job = exchange::JobIdentity([](std::string_view name) -> std::optional<std::string_view> {
      const char* const value = std::getenv(std::string(name).c_str());
      return value ? std::optional<std::string_view>(value) : std::nullopt;
    });
    if (setup.job.empty()) setup.job = exchange::IdentityOfSecret(options.token);
    std::string why;
    exchange_ = exchange::Open(setup, &why);
    if (!exchange_) {
      std::fprintf(stderr, "leader %d: %s\n", number, why.c_str());
      std::exit(1);
    }
    reporter_.Begin(++session_);
  }

  // entered: collectives of the world, the newest of them at newest_ns; inside: it has not returned.
  void Tick(std::int64_t now_ns, std::uint64_t entered, std::int64_t newest_ns, bool inside, const Fault& fault) {
    entered_ = entered;
    newest_ns_ = newest_ns;
    inside_ = inside;
    while (std::optional<exchange::Message> message = exchange_->Receive()) Take(*message, fault);
    if (!exchange_->status().connected) return;
    const nodes::NodeNow now = Now(now_ns, fault);
    for (std::string& body : reporter_.Look(now)) {
      bytes_ += body.size();
      exchange_->Send("", exchange::Type::kSummary, std::move(body));
    }
  }

  bool connected() const { return exchange_->status().connected; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t wire_bytes() const { return exchange_->counters().bytes_out; }
  std::uint64_t wire_bytes_in() const { return exchange_->counters().bytes_in; }
  std::uint64_t answers() const { return answers_; }
  bool reported() const { return reported_; }

 private:
  std::string Host() const { return "host" + std::to_string(number_); }
  int RankOf(int local) const { return number_ * options_.ranks + local; }
  // Who is gone, or has not made the call, stands one behind.
  bool Behind(int rank, const Fault& fault) const {
    return fault.planted && rank == fault.rank && fault.kind != "mismatch";
  }

  void Take(const exchange::Message& message, const Fault& fault) {
    if (message.type == exchange::Type::kVerdict) {
      bool damaged = false;
      const std::optional<std::string> whole = pieces_.Add(message.body, &damaged);
      const std::optional<nodes::VerdictBroadcast> word = whole ? nodes::ReadWord(*whole) : std::nullopt;
      if (!word) return;
      revision_ = word->revision;
      reported_ |= word->stands;
    }
    if (message.type != exchange::Type::kFetch) return;
    const std::optional<nodes::Fetch> fetch = nodes::ReadFetch(message.body);
    if (!fetch) return;
    if (fetch->number == 0) return reporter_.Begin(++session_);
    ++answers_;
    for (std::string& piece : nodes::Answer(*fetch, Boxes(fetch->newest_calls, fault)))
      exchange_->Send(message.from, exchange::Type::kRecords, std::move(piece));
  }

  nodes::ProcessNow Process(int local, std::int64_t now_ns, const Fault& fault) const {
    const int rank = RankOf(local);
    nodes::ProcessNow process;
    process.pid = static_cast<std::uint32_t>(100 + local);
    process.start_time = 5;
    process.pid_namespace = 4026531836;
    process.rank = rank;
    process.world_size = options_.leaders * options_.ranks;
    process.local_rank = local;
    process.local_world_size = options_.ranks;
    process.boot_id = "played-" + std::to_string(number_);
    process.host = Host();
    process.job = "leaders";
    process.command = "python train.py";
    process.nccl_version = 22809;
    process.gpu_marks = format::GpuMarks::kUnavailable;
    process.realtime_minus_monotonic_ns = watch::Realtime() - watch::Monotonic();
    const bool gone = Behind(rank, fault) && fault.kind == "killed";
    process.heartbeat_ns = gone ? fault.at_ns : now_ns - 20 * kMs;
    if (local == 0 && fault.planted && fault.kind == "killed" && fault.rank / options_.ranks == number_) {
      reader::Observation seen;
      seen.at_ns = fault.at_ns;
      seen.pid = static_cast<std::uint32_t>(100 + fault.rank % options_.ranks);
      seen.start_time = 5;
      seen.place = format::PidPlace(process.boot_id, process.pid_namespace);
      seen.rank = fault.rank;
      seen.what = format::Observed::kGone;
      seen.exit_flags = format::kExitKnown;
      seen.exit_signal = 9;
      process.observations.push_back(seen);
    }
    return process;
  }

  nodes::NodeNow Now(std::int64_t now_ns, const Fault& fault) const {
    nodes::NodeNow now;
    now.now_ns = now_ns;
    now.revision = revision_;
    for (int local = 0; local < options_.ranks; ++local) {
      nodes::ProcessNow process = Process(local, now_ns, fault);
      process.members.push_back(Member(local, 0, fault));
      process.members.push_back(Member(local, 1, fault));
      now.processes.push_back(std::move(process));
    }
    return now;
  }

  // Of the world, and of a communicator of the node's own ranks, which is never at fault.
  nodes::MemberNow Member(int local, std::uint32_t index, const Fault& fault) const {
    const int rank = RankOf(local);
    const bool world = index == 0;
    const bool behind = world && Behind(rank, fault);
    nodes::MemberNow member;
    member.index = index;
    member.id = world ? kWorld : 1'000'000 + static_cast<std::uint64_t>(number_);
    member.rank = static_cast<std::uint32_t>(world ? rank : local);
    member.size = static_cast<std::uint32_t>(world ? options_.leaders * options_.ranks : options_.ranks);
    member.state = format::CommunicatorState::kReady;
    member.created_ns = 1;
    member.entered = entered_ - (behind ? 1 : 0);
    const bool inside = world && inside_ && !behind;
    member.returned = member.entered - (inside ? 1 : 0);
    member.chain = ChainOver(member.entered, fault, world ? rank : -1);
    member.last_entered_ns = newest_ns_;
    std::uint64_t roundest = 0;
    for (std::uint64_t position = member.entered; position + kStepsPerTick > member.entered && position > 0; --position)
      if (diagnosis::Rounder(position, roundest)) roundest = position;
    if (roundest > 0) member.pace = nodes::Check{roundest, ChainOver(roundest, fault, world ? rank : -1)};
    if (inside) member.last = CallAt(member.entered - 1, newest_ns_, true, fault, rank);
    return member;
  }

  std::vector<reader::BoxImage> Boxes(std::uint64_t calls, const Fault& fault) const {
    std::vector<reader::BoxImage> boxes;
    for (int local = 0; local < options_.ranks; ++local) {
      const nodes::ProcessNow process = Process(local, watch::Monotonic(), fault);
      const nodes::MemberNow member = Member(local, 0, fault);
      reader::BoxImage box;
      box.boot_id = process.boot_id;
      box.host = process.host;
      box.job = process.job;
      box.pid_namespace = process.pid_namespace;
      box.start_time = process.start_time;
      box.pid = process.pid;
      box.rank = process.rank;
      box.world_size = process.world_size;
      box.local_rank = process.local_rank;
      box.local_world_size = process.local_world_size;
      box.state = format::ProcessState::kRunning;
      box.heartbeats = 1;
      box.heartbeat_ns = process.heartbeat_ns;
      box.realtime_minus_monotonic_ns = process.realtime_minus_monotonic_ns;
      box.gpu_marks = process.gpu_marks;
      box.observations = process.observations;
      reader::Communicator& comm = box.communicators.emplace_back();
      comm.id = kWorld;
      comm.rank = member.rank;
      comm.size = member.size;
      comm.state = member.state;
      comm.created_ns = 1;
      comm.entered = member.entered;
      comm.returned = member.returned;
      comm.chain = member.chain;
      comm.last.entered_ns = newest_ns_;
      const std::uint64_t kept = std::min<std::uint64_t>({member.entered, calls, 512});
      box.head = member.entered;
      box.first_slot = member.entered - kept;
      for (std::uint64_t position = member.entered - kept; position < member.entered; ++position) {
        const auto ago = static_cast<std::int64_t>(member.entered - 1 - position);
        const bool inside = position + 1 == member.entered && member.returned < member.entered;
        box.calls.push_back(
            CallAt(position, newest_ns_ - ago * kTick_ns / kStepsPerTick, inside, fault, RankOf(local)));
      }
      boxes.push_back(std::move(box));
    }
    return boxes;
  }

  const Options& options_;
  int number_;
  std::unique_ptr<exchange::Exchange> exchange_;
  nodes::Reporter reporter_;
  nodes::Pieces pieces_;
  std::uint32_t session_ = 0;
  std::uint64_t revision_ = 0, bytes_ = 0, answers_ = 0;
  std::uint64_t entered_ = 0;
  std::int64_t newest_ns_ = 1;
  bool inside_ = false, reported_ = false;
};

}  // namespace ncclwatch::testing
