// What leaders say to one another apart from summaries: the hub's questions, the answers, the verdict for all. Pure;
// nothing here trusts a byte. Every body begins with kWireVersion.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "core/nodes/bytes.h"
#include "core/reader/image.h"

namespace ncclwatch::nodes {

// What is larger than one message goes in pieces, one after the other.
inline constexpr std::size_t kPiece = 900u << 10;
inline constexpr std::size_t kMostWhole = 64u << 20;
std::vector<std::string> InPieces(std::uint64_t number, std::string_view whole);

// Puts together what one peer sends; of two wholes at once the newer one counts.
class Pieces {
 public:
  // The whole, with its last piece. `damaged` is set if the body cannot be a piece.
  std::optional<std::string> Add(std::string_view body, bool* damaged);
  std::size_t bytes() const { return whole_.size(); }  // of a whole that has begun

 private:
  std::uint64_t number_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t pieces_ = 0;
  std::string whole_;
};

// ---- hub to node -------------------------------------------------------------------------------------------------

struct Fetch {
  std::uint64_t number = 0;        // 0: begin a new session of summaries, nothing else
  std::uint64_t newest_calls = 0;  // of each process
  std::uint64_t communicator = 0;  // all calls that are left of this one, 0 none
  std::uint64_t most_bytes = 0;    // of the answer
};
std::string Write(const Fetch& fetch);
std::optional<Fetch> ReadFetch(std::string_view body);

// ---- node to hub -------------------------------------------------------------------------------------------------

struct Records {
  std::uint64_t number = 0;  // of the Fetch
  std::vector<reader::BoxImage> boxes;
  std::size_t made = 0;  // bytes of memory, about
};
// As many of the calls that are asked for as fit. In pieces.
std::vector<std::string> Answer(const Fetch& fetch, std::vector<reader::BoxImage> boxes);
// None: damaged, or more than there is room for.
std::optional<Records> ReadRecords(std::string_view whole, std::size_t most_made = kMostMade);

// ---- hub to all --------------------------------------------------------------------------------------------------

// Where the job stands, and what is said of it. Revisions count what has been said under one term; a node that has
// missed one says so with its next summary. Instants are on the job's clock unless they are said to be wall clock.
struct VerdictBroadcast {
  std::uint64_t revision = 0;
  std::uint64_t verdicts = 0;           // published for the job so far
  std::int64_t job_minus_yours_ns = 0;  // to be added to the receiver's CLOCK_MONOTONIC, 0 not known
  diagnosis::Limits limits;
  std::int64_t longest_wait_ns = 0;
  bool stands = false;
  bool announced = false;  // how many ranks are watched
  bool unproven = false;   // it rests on nodes that may be strangers: to be shown, not to be acted on
  std::int64_t diagnosed_ns = 0;
  std::string hub_host;
  std::optional<diagnosis::Diagnosis> diagnosis;  // where something has been said; healthy: a verdict was taken back
  std::vector<reader::ProcessStacks> stacks;      // that are quoted with it
};
std::vector<std::string> Write(const VerdictBroadcast& word);
std::optional<VerdictBroadcast> ReadWord(std::string_view whole);
// What Write gave of a word, one after the other, in a file.
std::optional<VerdictBroadcast> ReadKept(std::string_view bytes);

// ---- anybody to anybody -------------------------------------------------------------------------------------------

struct Action {
  bool evidence = false;          // is wanted of every node
  std::int64_t diagnosed_ns = 0;  // the verdict (on the job's clock) that the stacks were taken for
  std::vector<reader::ProcessStacks> stacks;
};
std::string Write(const Action& action);
std::optional<Action> ReadAction(std::string_view body);

}  // namespace ncclwatch::nodes
