#include "analyzer/player/real.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/files/output_file.h"
#include "analyzer/player/print.h"
#include "analyzer/player/rank.h"
#include "analyzer/player/script.h"
#include "analyzer/player/start.h"
#include "analyzer/replay/stopped.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// All ranks of one start on a node find the same one, those of the next start another.
absl::StatusOr<std::string> MeetingPlace(const RealWish& wish, const rundir::Place& place) {
  std::string path = wish.meet;
  if (path.empty() && place.local_world_size != place.world_size)
    return absl::InvalidArgumentError("ranks on several nodes need --meet DIR, a new directory that all of them see");
  if (path.empty()) {
    const rundir::Instance started = rundir::InstanceOf(getpid(), place);
    path = fmt::format("ncclwatch-replay-{}-{}", started.pid, started.start_time);
  }
  if (absl::Status made = MakeFolders(path); !made.ok()) return made;
  std::error_code error;
  return fs::absolute(path, error).string();
}

absl::StatusOr<bool> PlayOwnRank(const Recording& recording, const RecordedProgram& program, const RealWish& wish,
                                 const rundir::Place& place) {
  const int ranks = PlayingRanks(program);
  if (place.world_size != ranks)
    return absl::InvalidArgumentError(
        fmt::format("the recording has {} ranks, the launcher started {}", ranks, place.world_size));
  const auto directory = MeetingPlace(wish, place);
  if (!directory.ok()) return directory.status();
  const auto script = ScriptOf(program, place.rank, wish.loops);
  const absl::Status played =
      PlayRank(wish.on, script.get(), Fates(recording), program.process(place.rank)->process(), *directory);
  if (!played.ok()) return played;
  if (wish.one_rank || place.rank != 0) return true;
  Measured measured;
  for (int rank = 0; rank < ranks; ++rank)
    if (const absl::Status added = measured.Add(ResultFile(*directory, rank)); !added.ok()) return added;
  PrintMeasured(measured, program);
  std::error_code ignored;
  if (wish.meet.empty()) fs::remove_all(*directory, ignored);
  return measured.wrong() == 0;
}

// What each rank is still in.
std::vector<StoppedCall> StoppedIn(const std::string& directory) {
  std::vector<StoppedCall> stopped;
  const Recording replayed = Recording::Open({directory});
  for (const ProcessRecording& process : replayed.processes()) {
    PieceReader pieces(process);
    std::vector<reader::Failure> ignored;
    for (Piece piece; pieces.Next(&piece, &ignored);)
      for (const reader::Call& call : piece.calls) {
        const auto on = std::find_if(piece.communicators.begin(), piece.communicators.end(), [&](const auto& one) {
          return one.index == call.communicator && one.generation == call.generation;
        });
        const bool known = on != piece.communicators.end();
        const bool on_gpu = known && (call.flags & format::kMarked) != 0 && !on->Finished(call.ticket);
        if (call.returned_ns != 0 && !on_gpu) continue;
        stopped.push_back({process.rank(), known ? on->id : 0, call.position, call.function});
      }
  }
  return stopped;
}

class Temporary {
 public:
  Temporary() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "ncclwatch-replay-XXXXXX").string();
    if (!error && mkdtemp(path.data())) path_ = path;
  }
  ~Temporary() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void PrintPlayed(const Played& played, const RecordedProgram& program, std::uint64_t calls, bool completed) {
  PrintMeasured(played.measured, program);
  Print("{}: {} calls of {} ranks in {}{}\n", completed ? "completed" : "stopped", calls, PlayingRanks(program),
        DurationText(absl::Seconds(played.seconds)),
        played.measured.wrong() == 0 ? "" : fmt::format(", {} with wrong data", played.measured.wrong()));
  if (!played.measured.not_played.empty()) {
    std::string text;
    for (const auto& [op, count] : played.measured.not_played)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, op);
    Print("not played: {}\n", text);
  }
  const Json& findings = played.diagnosis["findings"];
  for (const Json& finding : findings)
    Print("{}: {}\n", finding.value("kind", ""), Printable(finding.value("summary", "")));
}

absl::StatusOr<bool> StartAll(const Recording& recording, const RecordedProgram& program, const RealWish& wish) {
  const int ranks = PlayingRanks(program);
  if (wish.ranks != 0 && wish.ranks != ranks)
    return absl::InvalidArgumentError(
        fmt::format("the recording has {} ranks, not {}: choose some with --ranks", ranks, wish.ranks));
  const Temporary temporary;
  if (temporary.path().empty()) return absl::UnavailableError("no temporary directory can be made");
  Play play{.on = wish.on,
            .rank = {"replay", "--on", wish.on, "--one-rank", "--meet", temporary.path()},
            .launcher = wish.launcher,
            .record = wish.out.empty() ? temporary.path() + "/recording" : wish.out,
            .directory = temporary.path(),
            .ranks = ranks,
            .recorded_ns = 0};
  for (const std::string& word : wish.words) play.rank.push_back(word);
  std::error_code ignored;
  for (const std::string& path : wish.paths) play.rank.push_back(fs::absolute(path, ignored).string());
  play.recorded_ns = absl::ToUnixNanos(recording.End()) - program.began_ns();
  const auto played = StartPlay(play);
  if (!played.ok()) return played.status();

  const std::uint64_t wrong = played->measured.wrong();
  const Json& findings = played->diagnosis["findings"];
  const bool completed = played->all_done && played->status == 0 && findings.empty();
  std::uint64_t calls = 0;
  for (const auto& [kind, of] : played->measured.kinds) calls += of.calls;
  if (wish.json) {
    PrintJson({{"schema", "ncclwatch.replay/1"},
               {"on", wish.on},
               {"ranks", ranks},
               {"calls", calls},
               {"completed", completed},
               {"stopped", completed ? Json::array() : StoppedJson(StoppedIn(play.record))},
               {"simulated_s", nullptr},
               {"replayed_s", played->seconds},
               {"recorded_s", static_cast<double>(play.recorded_ns) / 1e9},
               {"steps", Json::array()},
               {"calls_per_s", static_cast<double>(calls) / played->seconds},
               {"wrong", wrong},
               {"not_played", played->measured.not_played},
               {"rows", MeasuredJson(played->measured, program)},
               {"run_directory", wish.out.empty() ? Json(nullptr) : Json(wish.out)},
               {"findings", findings}});
  } else {
    PrintPlayed(*played, program, calls, completed);
  }
  return completed && wrong == 0;
}

}  // namespace

absl::StatusOr<bool> ReplayForReal(const Recording& recording, const RecordedProgram& program, const RealWish& wish) {
  const rundir::Place place = OwnPlace();
  const bool started = wish.ranks == 0 && place.launcher != rundir::Launcher::kNone && place.rank >= 0;
  return started ? PlayOwnRank(recording, program, wish, place) : StartAll(recording, program, wish);
}

}  // namespace ncclwatch::analyzer
