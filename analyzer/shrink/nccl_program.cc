#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "analyzer/player/nccl/data.h"
#include "analyzer/player/script.h"
#include "analyzer/shrink/listing.h"
#include "analyzer/shrink/program_text.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using functions::Pattern;
using player::Communicator;

// The ranks are processes of one program, so that nothing else is needed to start them.
constexpr char kNcclSource[] = R"(// {title}
#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>

#define CHECK(call) \
  if (int error = call) fprintf(stderr, "rank %d: %s: error %d\n", rank, #call, error), exit(1)

static int rank = 0;
static struct Shared {{ volatile bool made; ncclUniqueId id; }}* shared;  // by communicator

static ncclUniqueId Id(int comm, bool make) {{
  if (make) CHECK(ncclGetUniqueId(&shared[comm].id));
  if (make) shared[comm].made = true;
  while (!shared[comm].made) usleep(1000);
  return shared[comm].id;
}}
{data}{forever}
int main() {{
  const int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
  shared = static_cast<Shared*>(mmap(nullptr, {comms} * sizeof(Shared), access, flags, -1, 0));
  while (rank < {ranks} && fork() != 0) ++rank;  // every rank is a process
  if (rank == {ranks}) {{
    while (wait(nullptr) > 0) continue;
    return 0;
  }}
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", "{ranks}", 1);
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaSetDevice(rank % devices));
{declarations}
{body}  for (;;) pause();  // it makes no further call
}}
)";

constexpr char kData[] = R"(
static void* Data(size_t bytes) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, bytes));
  return data;
}
)";

constexpr char kForever[] = R"(
static void Forever(void*) {  // in a stream: what is enqueued behind it never begins
  for (;;) pause();
}
)";

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
  NcclProgram(const RecordedProgram& program, const Fates& fates, bool stalls)
      : program_(program), fates_(fates), stalls_(stalls) {}

  absl::StatusOr<std::string> Make(const std::string& title) {
    std::vector<Statements> ranks(static_cast<std::size_t>(program_.ranks));  // who has no recording makes no call
    for (int rank = 0; rank < PlayingRanks(program_); ++rank) {
      const auto job_rank = static_cast<std::size_t>(std::max(0, program_.process(rank)->rank()));
      if (job_rank >= ranks.size()) ranks.resize(job_rank + 1);
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
    return fmt::format(fmt::runtime(kNcclSource), fmt::arg("title", title), fmt::arg("ranks", ranks.size()),
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
    const std::string leaving = LeavingText(fates_, program_.process(rank)->process());
    if (!leaving.empty()) statements->push_back(leaving);
    if (leaving.empty())
      for (const auto& [recorded, index] : stream_of_) Say(fmt::format("cudaStreamSynchronize(streams[{}])", index));
    return absl::OkStatus();
  }

  void Say(const std::string& call) { statements_->push_back("CHECK(" + call + ");"); }

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
    Say(call.as.function == Function::ncclGroupStart ? "ncclGroupStart()" : "ncclGroupEnd()");
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
    Say(fmt::format("ncclCommInitRank(&{}, {}, Id({}, {}), {})", CommText(call.made), size, call.made,
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
      Say(fmt::format("ncclCommSplit({}, NCCL_SPLIT_NOCOLOR, 0, &nobody, nullptr)", CommText(call.comm)));
      return true;
    }
    const Communicator& made = script_->communicators[static_cast<std::size_t>(call.made)];
    Say(fmt::format("ncclCommSplit({}, {}, {}, &{}, nullptr)", CommText(call.comm), call.made,
                    IsInOrder(made) ? "rank" : fmt::format("{}", made.own), CommText(call.made)));
    return true;
  }

  bool AddEnd(const player::Call& call) {
    if (call.comm < 0) return true;
    switch (call.as.function) {
      case Function::ncclCommFinalize:
      case Function::ncclCommDestroy:
      case Function::ncclCommAbort:
        Say(fmt::format("{}({})", functions::FullName(call.as.function), CommText(call.comm)));
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
    if (stalls_ && (call.never_begins || call.never_ends)) {
      held_ = true;
      Say(fmt::format("cudaLaunchHostFunc({}, Forever, nullptr)", stream));
    }
    const std::string end = fmt::format("{}, {})", comm, stream);
    switch (pattern) {
      case Pattern::kBroadcast:
        Say(fmt::format("ncclBroadcast({}, {}, {}, {}, {}", from, into, amount, call.as.root, end));
        return true;
      case Pattern::kReduce:
        Say(fmt::format("ncclReduce({}, {}, {}, {}, {}, {}", from, into, amount, ReductionText(call.as.reduction),
                        call.as.root, end));
        return true;
      case Pattern::kReduceScatter:
      case Pattern::kAllReduce:
        Say(fmt::format("{}({}, {}, {}, {}, {}", pattern == Pattern::kAllReduce ? "ncclAllReduce" : "ncclReduceScatter",
                        from, into, amount, ReductionText(call.as.reduction), end));
        return true;
      case Pattern::kAllGather: Say(fmt::format("ncclAllGather({}, {}, {}, {}", from, into, amount, end)); return true;
      case Pattern::kSend: Say(fmt::format("ncclSend({}, {}, {}, {}", from, amount, call.as.root, end)); return true;
      case Pattern::kReceive: Say(fmt::format("ncclRecv({}, {}, {}, {}", into, amount, call.as.root, end)); return true;
      default: return false;
    }
  }

  const RecordedProgram& program_;
  const Fates& fates_;
  player::Script* script_ = nullptr;
  Statements* statements_ = nullptr;
  std::map<std::uint64_t, std::size_t> stream_of_;  // of the rank, by the recorded one
  std::size_t streams_ = 0;                         // at most
  std::set<int> comms_;
  const bool stalls_;  // what holds the GPUs up is the fault itself
  bool held_ = false, nobody_ = false;
};

}  // namespace

absl::StatusOr<std::string> NcclProgramText(const RecordedProgram& program, const Fates& fates,
                                            const std::string& title, bool stalls) {
  return NcclProgram(program, fates, stalls).Make(title);
}

}  // namespace ncclwatch::analyzer
