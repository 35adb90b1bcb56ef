#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/player/script.h"
#include "analyzer/shrink/listing.h"
#include "analyzer/shrink/program_text.h"
#include "analyzer/shrink/units.h"
#include "core/calls/mpi_message.h"
#include "ncclwatch/functions/pattern.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using functions::Pattern;
using player::Communicator;

constexpr char kMpiSource[] = R"(// {title}
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALL(...) (in = #__VA_ARGS__, __VA_ARGS__)

{reports}{stay}
int main(int argc, char** argv) {{
  int level;
{declarations}  Watch();
  MPI_Init_thread(&argc, &argv, {level}, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
{groups}{body}  return 0;
}}
)";

constexpr char kMpiStay[] = R"(
static void Stay(void) {
  for (;;) pause();
}
)";

constexpr const char* kLevels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED",
                                   "MPI_THREAD_MULTIPLE"};

bool IsPersistent(Function function) { return functions::FullName(function).find("_init") != std::string_view::npos; }

// "8, MPI_INT", and how many bytes that is. What is not of one basic type is sent as bytes.
std::string AmountText(const player::Call& call) {
  for (const functions::NumberedName& one : functions::kMpiDatatypes)
    if (one.number == call.as.dtype) return fmt::format("{}, {}", call.as.count, one.name);
  return fmt::format("{}, MPI_BYTE", call.as.bytes);
}

std::string OperatorText(const player::Call& call, const std::string& amount) {
  if (amount.ends_with("MPI_BYTE")) return "MPI_BOR";
  for (const functions::NumberedName& one : functions::kMpiOperators)
    if (one.number == call.as.reduction) return std::string(one.name);
  return "MPI_SUM";  // the program's own
}

std::string DataText(std::uint64_t bytes) { return fmt::format("calloc(1, {})", std::max<std::uint64_t>(1, bytes)); }

struct Parts {
  std::uint64_t bytes = 0;
  std::string counts, places;  // array literals
};

Parts PartsText(const std::vector<std::uint64_t>& amounts, std::uint64_t unit) {
  Parts parts;
  for (const std::uint64_t amount : amounts) {
    parts.counts += fmt::format("{}{}", parts.counts.empty() ? "(int[]){" : ", ", amount);
    parts.places += fmt::format("{}{}", parts.places.empty() ? "(int[]){" : ", ", parts.bytes);
    parts.bytes += amount;
  }
  parts.counts += "}";
  parts.places += "}";
  parts.bytes *= unit;
  return parts;
}

std::vector<std::uint64_t> BytesOf(const std::vector<format::Part>& parts) {
  std::vector<std::uint64_t> bytes;
  for (const format::Part& part : parts) bytes.push_back(part.bytes);
  return bytes;
}

std::vector<std::uint64_t> EvenShares(std::uint64_t all, std::uint64_t ranks) {
  std::vector<std::uint64_t> shares;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) shares.push_back(all * (rank + 1) / ranks - all * rank / ranks);
  return shares;
}

class MpiProgram {
 public:
  MpiProgram(const RecordedProgram& program, const Fates& fates, const ProgramRequest& request)
      : program_(program), fates_(fates), request_(request) {}

  absl::StatusOr<std::string> Make() {
    if (program_.ranks != PlayingRanks(program_) || program_.ranks != request_.ranks)
      return absl::UnimplementedError("a rank has left no recording: its part of the program cannot be written");
    std::vector<Statements> ranks(static_cast<std::size_t>(program_.ranks));
    int level = 0;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const auto script = ScriptOf(program_, rank, 1);
      if (absl::Status added = Add(script.get(), &ranks[static_cast<std::size_t>(rank)]); !added.ok()) return added;
      level = std::clamp(script->thread_level, level, 3);
    }
    std::string declarations;
    for (const int comm : comms_) declarations += fmt::format("{}comm{}", declarations.empty() ? "" : ", ", comm);
    if (!declarations.empty()) declarations = "  MPI_Comm " + declarations + ";\n";
    if (groups_) declarations += "  MPI_Group all, group;\n";
    if (requests_ != 0) declarations += fmt::format("  MPI_Request requests[{}];\n", requests_);
    const std::string body = BodyOf(ranks);
    return fmt::format(fmt::runtime(kMpiSource), fmt::arg("title", request_.title), fmt::arg("reports", kReportsText),
                       fmt::arg("stay", body.find("Stay();") == std::string::npos ? "" : kMpiStay),
                       fmt::arg("declarations", declarations), fmt::arg("level", kLevels[level]),
                       fmt::arg("body", body),
                       fmt::arg("groups", groups_ ? "  MPI_Comm_group(MPI_COMM_WORLD, &all);\n" : ""));
  }

 private:
  absl::Status Add(player::Script* script, Statements* statements) {
    script_ = script;
    statements_ = statements;
    request_of_.clear();
    exchange_.reset();
    for (std::size_t comm = 0; comm < script->communicators.size(); ++comm)
      if (script->communicators[comm].is == Communicator::Is::kOfMembers && script->communicators[comm].own >= 0)
        AddOfMembers(static_cast<int>(comm));
    std::vector<player::Call> calls;
    while (script->Next(&calls)) {
      for (const player::Call& call : calls)
        if (!call.left_out && !AddCall(call)) return CannotBeWritten(program_, script->rank, call.as);
      calls.clear();
    }
    if (!script->failure.empty()) return absl::DataLossError(script->failure);
    EndExchange();
    Statements ending = EndingText(fates_, program_.process(script->rank)->process(), request_);
    const bool finalized = !statements->empty() && statements->back() == CallText("MPI_Finalize()");
    if (finalized && (ending.empty() || ending.back() == "_exit(0);")) ending.clear();
    if (!finalized && ending.empty()) ending = {"Say(\"finished its calls\", \"\");", CallText("MPI_Finalize()")};
    statements->insert(statements->end(), ending.begin(), ending.end());
    return absl::OkStatus();
  }

  void Write(const std::string& call) { statements_->push_back(CallText(call)); }
  const Communicator& At(int comm) const { return script_->communicators[static_cast<std::size_t>(comm)]; }
  static std::string Name(const player::Call& call) {
    return std::string(functions::FullName(functions::WithSmallCounts(call.as.function)));
  }

  std::string CommText(int comm) {
    if (At(comm).is == Communicator::Is::kWorld) return "MPI_COMM_WORLD";
    if (At(comm).is == Communicator::Is::kSelf) return "MPI_COMM_SELF";
    comms_.insert(comm);
    return fmt::format("comm{}", comm);
  }

  // What the exchange received was left out.
  void EndExchange() {
    if (exchange_) Write(fmt::format("MPI_Send({}, {})", exchange_->first, exchange_->second));
    exchange_.reset();
  }

  bool AddCall(const player::Call& call) {
    const functions::FunctionInfo* const info = functions::Find(call.as.function);
    if (!info) return false;
    if (!IsExchange(call.as.function) || diagnosis::IsSend(call.as)) EndExchange();
    switch (info->family) {
      case Family::kLife: return AddLife(call);
      case Family::kCreation: return AddCreation(call);
      case Family::kLifecycle: return AddFree(call);
      case Family::kCollective:
      case Family::kRooted: return AddCollective(call);
      case Family::kPointToPoint: return AddMessage(call);
      case Family::kProbe: return AddProbe(call);
      case Family::kCompletion: return AddCompletion(call);
      case Family::kWindow:
      case Family::kFile:
      case Family::kOneSided: return false;
      default: return true;  // it moves nothing between ranks
    }
  }

  bool AddLife(const player::Call& call) {
    if (call.as.function == Function::MPI_Finalize) {
      statements_->push_back("Say(\"finished its calls\", \"\");");
      Write("MPI_Finalize()");
    }
    if (call.as.function == Function::MPI_Abort) Write("MPI_Abort(MPI_COMM_WORLD, 1)");
    return true;
  }

  // ---- communicators ------------------------------------------------------------------------------------------------

  static std::string RanksText(const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    return "(int[]){" + text + "}";
  }

  // What no recorded call has made, or its members alone.
  void AddOfMembers(int comm) {
    groups_ = true;
    Write(fmt::format("MPI_Group_incl(all, {}, {}, &group), MPI_Comm_create_group(MPI_COMM_WORLD, group, {}, &{})",
                      At(comm).members.size(), RanksText(At(comm).members), comm, CommText(comm)));
  }

  bool AddCreation(const player::Call& call) {
    if (call.as.function == Function::MPI_Comm_create_group) return true;
    if (call.comm < 0 || call.as.function == Function::MPI_Intercomm_create ||
        call.as.function == Function::MPI_Intercomm_merge)
      return false;
    const std::string parent = CommText(call.comm);
    const std::string made = call.made < 0 ? "" : CommText(call.made);
    const bool dup = Name(call).find("dup") != std::string::npos;
    if (dup && call.made >= 0)
      Write(fmt::format("MPI_Comm_dup({}, &{})", parent, made));
    else if (call.made < 0)
      Write(fmt::format("MPI_Comm_split({}, MPI_UNDEFINED, 0, &(MPI_Comm){{MPI_COMM_NULL}})", parent));
    else
      Write(fmt::format("MPI_Comm_split({}, {}, {}, &{})", parent, call.made, At(call.made).own, made));
    return true;
  }

  bool AddFree(const player::Call& call) {
    if (call.comm >= 0 && call.as.function == Function::MPI_Comm_free && At(call.comm).is != Communicator::Is::kWorld)
      Write(fmt::format("MPI_Comm_free(&{})", CommText(call.comm)));
    return true;
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  // A blocking call ends with its communicator, others with their request; a persistent one is started besides.
  void SayStarting(const player::Call& call, const std::string& begin, const std::string& status = "") {
    if ((call.as.flags & format::kRequest) == 0) return Write(begin + status + ")");
    const std::size_t request = request_of_.size();
    request_of_[call.as.slot] = request;
    requests_ = std::max(requests_, request_of_.size());
    Write(fmt::format("{}, &requests[{}])", begin, request));
    if (IsPersistent(call.as.function)) Write(fmt::format("MPI_Start(&requests[{}])", request));
  }

  bool AddCompletion(const player::Call& call) {
    std::vector<std::size_t> requests;
    for (const std::uint64_t slot : call.ends)
      if (const auto found = request_of_.find(slot); found != request_of_.end()) requests.push_back(found->second);
    if (requests.empty()) return true;
    std::sort(requests.begin(), requests.end());
    const std::string name = Name(call), first = fmt::format("&requests[{}]", requests.front());
    const bool tests = name.find("Test") != std::string::npos;
    if (tests)
      for (const std::size_t one : requests)
        statements_->push_back(
            fmt::format("for (int done = 0; !done;) {}",
                        CallText(fmt::format("MPI_Test(&requests[{}], &done, MPI_STATUS_IGNORE)", one))));
    else if (requests.size() == 1 && name == "MPI_Waitany")
      Write(fmt::format("MPI_Waitany(1, {}, &level, MPI_STATUS_IGNORE)", first));
    else if (name != "MPI_Wait" && requests.back() - requests.front() + 1 == requests.size())
      Write(fmt::format("MPI_Waitall({}, {}, MPI_STATUSES_IGNORE)", requests.size(), first));
    else
      for (const std::size_t one : requests) Write(fmt::format("MPI_Wait(&requests[{}], MPI_STATUS_IGNORE)", one));
    return true;
  }

  // ---- messages -----------------------------------------------------------------------------------------------------

  static std::string PeerText(const player::Call& call) {
    if ((call.as.flags & format::kNoPartner) != 0) return "MPI_PROC_NULL";
    return (call.as.flags & format::kAnySource) != 0 ? "MPI_ANY_SOURCE" : fmt::format("{}", call.as.root);
  }
  static std::string TagText(const player::Call& call) {
    return (call.as.flags & format::kAnyTag) != 0 ? "MPI_ANY_TAG" : fmt::format("{}", std::max(call.as.tag, 0));
  }
  static std::string HalfText(const player::Call& call) {
    return fmt::format("{}, {}, {}, {}", DataText(call.as.bytes), AmountText(call), PeerText(call), TagText(call));
  }

  bool AddMessage(const player::Call& call) {
    if (IsPersistent(call.as.function) && (call.as.flags & format::kRequest) == 0) return true;  // made when started
    if (call.comm < 0) return false;
    const std::string comm = CommText(call.comm), half = HalfText(call);
    const bool sends = diagnosis::IsSend(call.as);
    const bool exchange = IsExchange(call.as.function);
    if (exchange && (call.as.flags & format::kRequest) != 0) return false;
    if (exchange && sends) {
      exchange_ = {half, comm};
      return true;
    }
    if (exchange && exchange_) {
      Write(fmt::format("MPI_Sendrecv({}, {}, {}, MPI_STATUS_IGNORE)", exchange_->first, half, comm));
      exchange_.reset();
      return true;
    }
    std::string name = Name(call);
    if (name == "MPI_Mrecv" || exchange) name = "MPI_Recv";
    if (name == "MPI_Imrecv") name = "MPI_Irecv";
    if ((call.as.flags & format::kBuffered) != 0) {
      constexpr std::uint64_t kOverhead = 1024;  // more than MPI_BSEND_OVERHEAD
      Write(fmt::format("MPI_Buffer_attach({0}, {1})", DataText(call.as.bytes + kOverhead), call.as.bytes + kOverhead));
    }
    SayStarting(call, fmt::format("{}({}, {}", name, half, comm), sends ? "" : ", MPI_STATUS_IGNORE");
    return true;
  }

  bool AddProbe(const player::Call& call) {
    if (call.comm < 0) return false;
    if ((call.as.flags & format::kPolls) != 0) return true;  // it found nothing
    Write(fmt::format("MPI_Probe({}, {}, {}, MPI_STATUS_IGNORE)", PeerText(call), TagText(call), CommText(call.comm)));
    return true;
  }

  // ---- collectives --------------------------------------------------------------------------------------------------

  bool AddCollective(const player::Call& call) {
    if (IsPersistent(call.as.function) && (call.as.flags & format::kRequest) == 0) return true;  // made when started
    if (call.comm < 0) return false;
    const std::string arguments = ArgumentsText(call);
    if (arguments.empty()) return false;
    SayStarting(call,
                fmt::format("{}({}{}", Name(call), arguments == "-" ? "" : arguments + ", ", CommText(call.comm)));
    return true;
  }

  // Without the communicator; "-": there are none, empty: it cannot be written.
  std::string ArgumentsText(const player::Call& call) const {
    const std::uint64_t bytes = call.as.bytes, ranks = At(call.comm).members.size();
    const std::string amount = AmountText(call), one = DataText(bytes), all = DataText(bytes * ranks);
    const Function function = functions::BlockingOfMpi(call.as.function);
    const int root = call.as.root;
    switch (function) {
      case Function::MPI_Barrier: return "-";
      case Function::MPI_Bcast: return fmt::format("{}, {}, {}", one, amount, root);
      case Function::MPI_Reduce:
        return fmt::format("{}, {}, {}, {}, {}", one, one, amount, OperatorText(call, amount), root);
      case Function::MPI_Allreduce:
      case Function::MPI_Scan:
      case Function::MPI_Exscan: return fmt::format("{}, {}, {}, {}", one, one, amount, OperatorText(call, amount));
      case Function::MPI_Reduce_scatter_block:
        return fmt::format("{}, {}, {}, {}", all, one, amount, OperatorText(call, amount));
      case Function::MPI_Gather: return fmt::format("{}, {}, {}, {}, {}", one, amount, all, amount, root);
      case Function::MPI_Scatter: return fmt::format("{}, {}, {}, {}, {}", all, amount, one, amount, root);
      case Function::MPI_Allgather: return fmt::format("{}, {}, {}, {}", one, amount, all, amount);
      case Function::MPI_Alltoall: return fmt::format("{}, {}, {}, {}", all, amount, all, amount);
      default: return UnevenText(call, function);
    }
  }

  // Amounts of single ranks, in bytes; the even share where only their sum is recorded.
  std::string UnevenText(const player::Call& call, Function function) const {
    const std::vector<int>& members = At(call.comm).members;
    const auto own = static_cast<std::size_t>(At(call.comm).own);
    const std::vector<std::uint64_t> shares = EvenShares(call.as.bytes, members.size());
    const std::string amount = AmountText(call), type = amount.substr(amount.find(", ") + 2);
    const Parts sends = PartsText(BytesOf(call.sends), 1), receives = PartsText(BytesOf(call.receives), 1),
                even = PartsText(shares, 1), counts = PartsText(EvenShares(call.as.count, members.size()), 1);
    const bool known = !call.sends.empty() || !call.receives.empty();
    const int root = call.as.root;
    const std::string from = DataText(sends.bytes), into = DataText(receives.bytes);
    switch (function) {
      case Function::MPI_Reduce_scatter:
        return fmt::format("{}, {}, {}, {}, {}", DataText(call.as.bytes), DataText(call.as.bytes), counts.counts, type,
                           OperatorText(call, amount));
      case Function::MPI_Allgatherv:
        return fmt::format("{}, {}, MPI_BYTE, {}, {}, {}, MPI_BYTE", DataText(shares[own]), shares[own],
                           DataText(even.bytes), even.counts, even.places);
      case Function::MPI_Alltoallv:
        if (!known) return "";
        return fmt::format("{}, {}, {}, MPI_BYTE, {}, {}, {}, MPI_BYTE", from, sends.counts, sends.places, into,
                           receives.counts, receives.places);
      case Function::MPI_Gatherv:
        if (!known) return "";
        return fmt::format("{}, {}, MPI_BYTE, {}, {}, {}, MPI_BYTE, {}", from, sends.bytes, into,
                           call.receives.empty() ? "NULL" : receives.counts,
                           call.receives.empty() ? "NULL" : receives.places, root);
      case Function::MPI_Scatterv:
        if (!known) return "";
        return fmt::format("{}, {}, {}, MPI_BYTE, {}, {}, MPI_BYTE, {}", from,
                           call.sends.empty() ? "NULL" : sends.counts, call.sends.empty() ? "NULL" : sends.places, into,
                           receives.bytes, root);
      default: return "";
    }
  }

  const RecordedProgram& program_;
  const Fates& fates_;
  const ProgramRequest& request_;
  player::Script* script_ = nullptr;
  Statements* statements_ = nullptr;
  std::map<std::uint64_t, std::size_t> request_of_;  // by the slot of its call
  std::size_t requests_ = 0;                         // of a rank, at most
  std::set<int> comms_;
  bool groups_ = false;
  std::optional<std::pair<std::string, std::string>> exchange_;  // the half that sends, and its communicator
};

}  // namespace

absl::StatusOr<std::string> MpiProgramText(const RecordedProgram& program, const Fates& fates,
                                           const ProgramRequest& request) {
  return MpiProgram(program, fates, request).Make();
}

}  // namespace ncclwatch::analyzer
