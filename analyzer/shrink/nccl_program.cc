#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "analyzer/player/nccl/data.h"
#include "analyzer/player/script.h"
#include "analyzer/shrink/listing.h"
#include "analyzer/shrink/nccl_source.h"
#include "analyzer/shrink/program_text.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using functions::Pattern;
using player::Communicator;

std::string TypeText(std::uint8_t dtype) {
  std::string name(functions::DatatypeName(dtype));
  if (functions::DatatypeBytes(dtype) == 0) return fmt::format("static_cast<ncclDataType_t>({})", dtype);
  std::erase(name, '_');
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "nccl" + name;
}

std::string ReductionText(std::uint8_t reduction) {
  std::string name(functions::ReductionName(KnownReduction(reduction)));
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "nccl" + name;
}

class NcclProgram {
 public:
  NcclProgram(const RecordedProgram& program, const Fates& fates, const ProgramRequest& request)
      : program_(program), fates_(fates), request_(request) {}

  absl::StatusOr<std::string> Make() {
    // Whoever has no recording makes no call.
    std::vector<Statements> ranks(static_cast<std::size_t>(request_.ranks), StayingText("another fault"));
    for (int rank = 0; rank < PlayingRanks(program_); ++rank) {
      const auto job_rank = static_cast<std::size_t>(std::max(0, program_.process(rank)->rank()));
      if (job_rank >= ranks.size()) ranks.resize(job_rank + 1, StayingText("another fault"));
      ranks[job_rank].clear();
      if (absl::Status added = Add(rank, &ranks[job_rank]); !added.ok()) return added;
    }
    std::string declarations;
    for (const int comm : comms_) declarations += fmt::format("{}comm{}", comm == *comms_.begin() ? "" : ", ", comm);
    if (nobody_) declarations += ", nobody";
    if (!declarations.empty()) declarations = "  ncclComm_t " + declarations + ";\n";
    if (streams_ != 0)
      declarations += fmt::format(
          "  cudaStream_t streams[{}];\n"
          "  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));\n",
          streams_);
    const bool stay = std::any_of(ranks.begin(), ranks.end(), [](const Statements& one) {
      return !one.empty() && one.back().starts_with("Stay()");
    });
    return fmt::format(fmt::runtime(kNcclSource), fmt::arg("title", request_.title), fmt::arg("ranks", ranks.size()),
                       fmt::arg("reports", kReportsText), fmt::arg("stay", stay ? kNcclStay : ""),
                       fmt::arg("comms", std::max<std::size_t>(1, program_.comms.size())),
                       fmt::arg("data", streams_ == 0 ? "" : kData), fmt::arg("forever", held_ ? kForever : ""),
                       fmt::arg("declarations", declarations), fmt::arg("body", BodyOf(ranks)));
  }

 private:
  absl::Status Add(int rank, Statements* statements) {
    const auto script = ScriptOf(program_, rank, 1);
    script_ = script.get();
    statements_ = statements;
    stream_of_.clear();
    std::vector<player::Call> calls;
    while (script->Next(&calls)) {
      for (const player::Call& call : calls)
        if (!call.left_out && !AddCall(call)) return CannotBeWritten(program_, rank, call.as);
      calls.clear();
    }
    if (!script->failure.empty()) return absl::DataLossError(script->failure);
    const Statements ending = EndingText(fates_, program_.process(rank)->process(), request_);
    const bool leaves = fates_.EndOf(program_.process(rank)->process()).has_value();
    if (!stream_of_.empty() && !(leaves && request_.stopped.contains(program_.process(rank)->rank())))
      statements->push_back("WaitForGpu();");
    if (ending.empty()) statements->push_back("Say(\"finished its calls\", \"\");");
    statements->insert(statements->end(), ending.begin(), ending.end());
    return absl::OkStatus();
  }

  void Write(const std::string& call) { statements_->push_back(CallText(call)); }

  bool AddCall(const player::Call& call) {
    const functions::FunctionInfo* const info = functions::Find(call.as.function);
    if (!info) return false;
    switch (info->family) {
      case Family::kGroup: return AddGroup(call);
      case Family::kCreation: return AddCreation(call);
      case Family::kLifecycle: return AddEnd(call);
      case Family::kCollective:
      case Family::kRooted:
      case Family::kPointToPoint: return AddCommunication(call);
      case Family::kOneSided: return false;
      default: return true;  // it moves nothing between ranks
    }
  }

  bool AddGroup(const player::Call& call) {
    const bool starts = call.as.function == Function::ncclGroupStart;
    Write(starts ? "ncclGroupStart()" : "ncclGroupEnd()");
    depth_ = std::max(0, depth_ + (starts ? 1 : -1));
    if (depth_ > 0) return true;
    for (const auto& [stream, calls] : grouped_)
      statements_->push_back(fmt::format("Enqueued({}, \"{} in a group\");", stream, calls));
    grouped_.clear();
    return true;
  }

  std::string CommText(int comm) {
    comms_.insert(comm);
    return fmt::format("comm{}", comm);
  }

  bool AddCreation(const player::Call& call) {
    if (call.as.function == Function::ncclCommSplit) return AddSplit(call);
    if (call.made < 0) return false;
    const Communicator& made = script_->communicators[static_cast<std::size_t>(call.made)];
    const std::size_t size = call.claimed_size != 0 ? call.claimed_size : made.members.size();
    const bool in_order = IsInOrder(made);
    Write(fmt::format("ncclCommInitRank(&{}, {}, Id({}, {}), {})", CommText(call.made), size, call.made,
                      in_order                  ? fmt::format("rank == {}", Maker(made))
                      : made.own == Maker(made) ? "true"
                                                : "false",
                      in_order ? "rank" : fmt::format("{}", made.own)));
    return true;
  }

  // The first member of which there is a recording: the others never come.
  int Maker(const Communicator& made) const {
    const auto plays = [&](int member) { return program_.process(member) != nullptr; };
    return static_cast<int>(std::find_if(made.members.begin(), made.members.end(), plays) - made.members.begin());
  }

  bool IsInOrder(const Communicator& made) const {
    for (std::size_t place = 0; place < made.members.size(); ++place) {
      const ProcessRecording* const process = program_.process(made.members[place]);
      if (process && process->rank() != static_cast<int>(place)) return false;
    }
    return true;
  }

  bool AddSplit(const player::Call& call) {
    if (call.comm < 0) return false;
    if (call.made < 0) {
      nobody_ = true;
      // The color of a split that never returned is not recorded.
      const bool returned = call.as.returned_ns != 0;
      Write(fmt::format("ncclCommSplit({}, {}, 0, &nobody, nullptr)", CommText(call.comm),
                        returned ? "NCCL_SPLIT_NOCOLOR" : "0"));
      return true;
    }
    const Communicator& made = script_->communicators[static_cast<std::size_t>(call.made)];
    Write(fmt::format("ncclCommSplit({}, {}, {}, &{}, nullptr)", CommText(call.comm), call.made,
                      IsInOrder(made) ? "rank" : fmt::format("{}", made.own), CommText(call.made)));
    return true;
  }

  bool AddEnd(const player::Call& call) {
    if (call.comm < 0) return true;
    switch (call.as.function) {
      case Function::ncclCommFinalize:
      case Function::ncclCommDestroy:
      case Function::ncclCommAbort:
        Write(fmt::format("{}({})", functions::FullName(call.as.function), CommText(call.comm)));
        return true;
      default: return false;
    }
  }

  std::string StreamText(const player::Call& call) {
    const auto [found, made] = stream_of_.emplace(call.as.stream, stream_of_.size());
    streams_ = std::max(streams_, stream_of_.size());
    return fmt::format("streams[{}]", found->second);
  }

  static std::string DataText(std::size_t bytes) { return bytes == 0 ? "nullptr" : fmt::format("Data({})", bytes); }

  bool AddCommunication(const player::Call& call) {
    const Pattern pattern = functions::PatternOfNccl(call.as.function);
    if (call.comm < 0) return false;
    const Amounts amounts = AmountsOf(call, pattern, script_->communicators[static_cast<std::size_t>(call.comm)]);
    const std::size_t element = std::max<std::size_t>(1, functions::DatatypeBytes(call.as.dtype));
    const std::string from = DataText(amounts.from * element), into = DataText(amounts.into * element),
                      type = TypeText(call.as.dtype), comm = CommText(call.comm), stream = StreamText(call);
    const std::string amount = fmt::format("{}, {}", call.as.count, type);
    if (call.never_begins || call.never_ends) {
      held_ = true;
      Write(fmt::format("cudaLaunchHostFunc({}, Forever, nullptr)", stream));
    }
    const std::string text = TransferText(call, pattern, from, into, amount, fmt::format("{}, {})", comm, stream));
    if (text.empty()) return false;
    if (depth_ == 0) {
      statements_->push_back(fmt::format("ENQUEUE({}, {});", stream, text));
    } else {
      std::string& calls = grouped_[stream];
      calls += (calls.empty() ? "" : ", ") + text.substr(0, text.find('('));
      Write(text);
    }
    return true;
  }

  // Empty: it cannot be written.
  static std::string TransferText(const player::Call& call, Pattern pattern, const std::string& from,
                                  const std::string& into, const std::string& amount, const std::string& end) {
    const std::string name(functions::FullName(call.as.function));
    switch (pattern) {
      case Pattern::kBroadcast:
        return fmt::format("ncclBroadcast({}, {}, {}, {}, {}", from, into, amount, call.as.root, end);
      case Pattern::kReduce:
        return fmt::format("ncclReduce({}, {}, {}, {}, {}, {}", from, into, amount, ReductionText(call.as.reduction),
                           call.as.root, end);
      case Pattern::kReduceScatter:
      case Pattern::kAllReduce:
        return fmt::format("{}({}, {}, {}, {}, {}", name, from, into, amount, ReductionText(call.as.reduction), end);
      case Pattern::kAllGather: return fmt::format("ncclAllGather({}, {}, {}, {}", from, into, amount, end);
      case Pattern::kSend: return fmt::format("ncclSend({}, {}, {}, {}", from, amount, call.as.root, end);
      case Pattern::kReceive: return fmt::format("ncclRecv({}, {}, {}, {}", into, amount, call.as.root, end);
      default: return "";
    }
  }

  const RecordedProgram& program_;
  const Fates& fates_;
  const ProgramRequest& request_;
  player::Script* script_ = nullptr;
  Statements* statements_ = nullptr;
  std::map<std::uint64_t, std::size_t> stream_of_;  // of the rank, by the recorded one
  std::size_t streams_ = 0;                         // at most
  std::set<int> comms_;
  std::map<std::string, std::string> grouped_;  // by stream: calls of the group that is open
  int depth_ = 0;
  bool held_ = false, nobody_ = false;
};

}  // namespace

absl::StatusOr<std::string> NcclProgramText(const RecordedProgram& program, const Fates& fates,
                                            const ProgramRequest& request) {
  return NcclProgram(program, fates, request).Make();
}

}  // namespace ncclwatch::analyzer
