// Between the leaders of a job's nodes. One small interface, two implementations: embedded TCP (one leader listens, the
// hub, the others connect) and Redis. docs/EXCHANGE.md has the protocol, the roles and what each token is worth.
//
// An Exchange has one thread of its own; every call of the interface returns at once, may come from any thread of the
// process that opened it, and does nothing in a fork child of that process. Delivery is at most once and, from one
// node to another under one hub, in order: a message on its way while a hub dies is lost. What must arrive is said
// again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/descriptors/directory.h"
#include "watchdog/settings/bind_address.h"
#include "watchdog/settings/exchange_address.h"

namespace ncclwatch::exchange {

enum class Type : std::uint16_t {
  // Said by the exchange itself, in order with what the node says; they cannot be sent.
  kJoined = 1,  // Message::from is there. On the hub: of every node; elsewhere: of the hub.
  kLeft = 2,    // and is not any more. The body says why: one of those below, or another reason; empty: not known
  // Said by leaders. The exchange does not look into bodies; more kinds may be added from here on.
  kSummary = 16,
  kFetch = 17,
  kRecords = 18,
  kVerdict = 19,
  kAction = 20,
  kSteps = 21,
  kSlowness = 22,
  kMachine = 23,
};
// Of these the oldest are dropped where a queue is full.
constexpr bool MayBeDropped(Type type) { return type == Type::kSummary || type == Type::kSteps; }
inline constexpr std::uint16_t kFirstOfLeaders = 16;

inline constexpr char kWasSilent[] = "silent";                 // it may be there, and the network is not
inline constexpr char kHasLeft[] = "left";                     // it has said so
inline constexpr char kWasClosed[] = "closed the connection";  // its machine has, and nobody there has said a word

// Terms count hubs. Nobody has seen more of them than this: what says so is refused, and who is there stays there.
inline constexpr std::uint64_t kMostTerm = std::uint64_t{1} << 40;
constexpr std::uint64_t TermAfter(std::uint64_t term) { return term < kMostTerm ? term + 1 : kMostTerm; }

struct Message {
  Type type = Type::kSummary;
  std::string from;        // Peer::node
  std::uint64_t term = 0;  // of the hub under which it was delivered
  std::string body;
  bool guessable = false;  // the connection by which it came was proved with nothing better than such a token
};

// Larger bodies are refused, not split: what is larger belongs into the evidence folder.
inline constexpr std::size_t kMaxBody = (1u << 20) - 512;
inline constexpr std::size_t kMaxName = 64;  // bytes of a node's or host's name

struct Peer {
  std::string node;                  // unique in the job (NodeName)
  std::string host;                  // for people
  std::string address;               // likewise, "10.0.0.7:40123", empty unknown
  std::uint64_t incarnation = 0;     // of its leader
  std::int64_t clock_offset_ns = 0;  // its CLOCK_MONOTONIC minus ours; valid where the error is not negative
  std::int64_t clock_error_ns = -1;  // the offset is within this of the truth; -1: not known (yet)
  std::int64_t last_heard_ns = 0;    // our CLOCK_MONOTONIC, 0 never
  std::int64_t late_ns = 0;          // by which its signs of life have come later than agreed, the most lately
  bool connected = false;
  bool hub = false;
  bool guessable = false;  // has shown nothing better than such a token
};

struct Status {
  bool connected = false;  // there is a hub and we have it, or are it
  bool hub = false;        // we are it. Both sides of a cut network may have one.
  std::string hub_node;    // empty: none known
  std::uint64_t term = 0;  // grows with every hub that follows another
  bool guessable = false;  // so is the token by which the hub and we know one another
};

struct Counters {
  std::uint64_t bytes_in = 0, bytes_out = 0;        // on the wire, without the headers of TCP
  std::uint64_t messages_in = 0, messages_out = 0;  // of leaders; a hub's relays included
  std::uint64_t summaries_dropped = 0;              // a queue was full
  std::uint64_t messages_refused = 0;               // too large, no room, damaged, replayed
  std::uint64_t strangers_refused = 0;              // connections that did not prove the token in time
  std::uint64_t joined = 0, left = 0;               // hubs seen by a member, members seen by a hub
};

// What every leader of the job knows and nobody else. token.h makes them.
struct Token {
  std::array<std::uint8_t, 32> bytes{};
  bool guessable = false;  // whoever can see how the job was started can make it too
};

struct Address {
  enum class Kind { kNone, kTcp, kRedis };
  Kind kind = Kind::kNone;
  std::string host;  // name or number, without brackets
  std::uint16_t port = 0;
  // TCP, where the launcher tells more than one: any of them may be it. The ports are tried in turn where a stranger
  // has taken the one before.
  std::vector<std::string> more_hosts;
  std::vector<std::uint16_t> more_ports;
  int database = 0;            // Redis
  std::string user, password;  // Redis
  settings::Tls tls;           // Redis
  std::string source;          // for people: where it comes from, "MASTER_ADDR"
  std::string ToText() const;  // "tcp://host:port"; never the password
};

struct Self {
  std::string node;               // at most kMaxName bytes, as NodeName makes it
  std::string host;               // cut to kMaxName bytes
  std::uint64_t incarnation = 0;  // grows with every leader of the node: the lease's generation
  // Rank 0 runs on this node: it listens where the address is nobody's own (a service's, a translated one).
  bool has_rank_zero = false;
};

// All in ns. The defaults are for jobs; tests make them shorter.
struct Timing {
  std::int64_t ping = 250'000'000;  // between signs of life, up to 64 nodes; a hub of more asks for up to 1 s
  std::int64_t first_patience =
      3'000'000'000;  // silence that is taken for an end before the network's habits are known
  std::int64_t least_patience =
      1'000'000'000;  // and afterwards (3 times the longest gap seen lately, within these two)
  std::int64_t most_patience = 10'000'000'000;
  std::int64_t connect = 2'000'000'000;  // for a peer to be reached, or to be heard of after others have spoken of it
  std::int64_t silence = 2'000'000'000;  // for whoever came to say what only a holder of the token can
  std::int64_t handshake = 10'000'000'000;  // and to prove it: TCP repeats what is lost after a second and more
  std::int64_t succession = 500'000'000;    // without a hub for so long: the first of the list becomes it, each further
                                            // one waits as long again
};

struct Setup {
  Address address;
  Self self;
  std::vector<Token> tokens;         // strongest first, at least one, at most 8; two peers use the first that both hold
  std::string job;                   // the same on all nodes, for names in Redis (JobIdentity of token.h)
  settings::BindAddress bind;        // where to listen (TCP)
  descriptors::Directory directory;  // that `memory` lies in
  std::string memory;  // a file in which a leader leaves its successor on the node whom it knew; empty: none
  Timing timing;
};

class Exchange {
 public:
  virtual ~Exchange() = default;  // within 100 ms; what was sent before is still given a chance to leave

  // `to`: a node, "" the hub (which may be ourselves: then Receive gives it back), "*" all others. Without a hub it is
  // kept until there is one. False: refused (a body over kMaxBody, no room for what is no summary, a kind of the
  // exchange's own).
  virtual bool Send(std::string_view to, Type type, std::string body) = 0;
  virtual std::optional<Message> Receive() = 0;  // the oldest; none: nothing there

  virtual Status status() const = 0;
  bool IsHub() const { return status().hub; }
  // On the hub every node that was ever there; elsewhere the hub and those next in line. Never ourselves.
  virtual std::vector<Peer> Peers() const = 0;
  virtual Counters counters() const = 0;
  // Lines for the log at warn, few however many strangers come. Given once.
  virtual std::vector<std::string> TakeLines() = 0;
};

// Begins to look for the others; returns at once. Null and a reason if it cannot (no thread, no descriptor, address of
// no kind).
std::unique_ptr<Exchange> Open(const Setup& setup, std::string* why);

}  // namespace ncclwatch::exchange
