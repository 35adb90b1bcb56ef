#include "tests/jobs/simulator/inspector_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "tests/jobs/simulator/scene.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kLeastBytes = 8192;  // NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES

struct Line {
  std::int64_t written = 0;  // in the job's time
  std::int32_t comm = -1;    // index into RankHistory::comms
  std::int64_t ended = 0;
  std::string performance;
  auto Key() const { return std::tie(written, comm, ended); }
};

}  // namespace

std::string HostOf(const Generated& made, int rank) { return fmt::format("node{}", made.job.node_of(rank)); }

std::string InspectorLines(const Generated& made, int rank) {
  const Scene scene(made);
  const RankHistory& history = made.world->rank(rank);
  std::map<std::pair<std::int32_t, Function>, std::uint64_t> numbers;
  std::map<std::int32_t, std::uint64_t> messages;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < history.records.size(); ++i) {
    const Record& record = history.records[i];
    const Detail& detail = history.details[i];
    const bool is_message = functions::IsMessage(record.function);
    if (record.ticket < 0 || (!is_message && !functions::IsCollective(record.function))) continue;
    const std::uint64_t number = is_message ? ++messages[record.comm] : numbers[{record.comm, record.function}]++;
    const std::uint64_t bytes = detail.count * functions::DatatypeBytes(detail.dtype);
    const std::int64_t ended =
        history.comms[static_cast<std::size_t>(record.comm)].tickets[static_cast<std::size_t>(record.ticket)];
    if (bytes < kLeastBytes || ended > made.now) continue;
    const std::string kind = is_message ? "p2p" : "coll";
    const std::string peer = is_message ? fmt::format(R"("p2p_peer":{},)", detail.root) : "";
    lines.push_back(
        {ended / kSecond * kSecond + kSecond, record.comm, ended,
         fmt::format(R"("{0}_perf":{{"{0}":"{1}","{0}_sn":{2},{3}"{0}_msg_size_bytes":{4},"{0}_exec_time_us":{5},)"
                     R"("{0}_timing_source":"kernel_gpu"}})",
                     kind, functions::OpName(record.function), number, peer, bytes, detail.kernel_ns / 1000)});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.Key() < b.Key(); });
  std::string text;
  for (const Line& line : lines) {
    const LocalComm& own = history.comms[static_cast<std::size_t>(line.comm)];
    text += fmt::format(
        R"({{"header":{{"id":"0x{:x}","comm_name":"unknown","rank":{},"n_ranks":{},"nnodes":{}}},"metadata":{{)"
        R"("inspector_output_format_version":"v4.0","dump_timestamp_us":{},"hostname":"{}","pid":{}}},{}}})"
        "\n",
        0x7f8c000000000 + own.comm, own.rank, own.claimed_size, made.job.nodes(),
        (kEpoch + scene.WallClockError(rank) + line.written) / 1000, HostOf(made, rank), scene.Pid(rank),
        line.performance);
  }
  return text;
}

}  // namespace ncclwatch::jobs
