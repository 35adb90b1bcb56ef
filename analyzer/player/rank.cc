#include "analyzer/player/rank.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "analyzer/files/output_file.h"
#include "analyzer/player/measured.h"
#include "analyzer/player/mpi_module.h"
#include "analyzer/player/nccl/player.h"

namespace ncclwatch::analyzer {
namespace {

// As the recorded process did, whose end or standstill the others' verdict was about.
void MeetFate(const Fates& fates, const reader::BoxImage& box) {
  const auto end = fates.EndOf(box);
  if (!end) return;
  if (end->stopped) {
    raise(SIGSTOP);
    return;
  }
  if (end->signal > 0) {
    std::signal(end->signal, SIG_DFL);
    raise(end->signal);
  }
  std::_Exit(end->status);
}

// Or until the directory is gone: rank 0 has seen that they are, and has removed it.
void StayUntilAllAreDone(const std::string& directory, int ranks) {
  std::error_code ignored;
  for (int rank = 0; rank < ranks && std::filesystem::exists(directory, ignored);)
    if (std::filesystem::exists(ResultFile(directory, rank), ignored))
      ++rank;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

rundir::Place OwnPlace() {
  return rundir::PlaceFrom([](std::string_view name) -> std::optional<std::string_view> {
    const char* const value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string_view>(value) : std::nullopt;
  });
}

std::string ResultFile(const std::string& directory, int rank) {
  return fmt::format("{}/replay.{}.json", directory, rank);
}

std::string FailureFile(const std::string& directory, int rank) {
  return fmt::format("{}/replay.{}.failure", directory, rank);
}

absl::Status PlayRank(const std::string& on, player::Script* script, const Fates& fates, const reader::BoxImage& box,
                      const std::string& directory) {
  script->directory = directory;
  Measured measured;
  absl::Status played =
      on == "mpi" ? PlayMpi(script, &measured) : PlayNccl(script, &measured, std::max(0, OwnPlace().local_rank));
  if (!script->failure.empty()) played = absl::DataLossError(script->failure);
  if (absl::IsDataLoss(played))
    WriteFile(FailureFile(directory, script->rank), std::string(played.message())).IgnoreError();
  if (!played.ok()) return played;
  // First, since the others wait for it: one that only left, with status 0, is no reason for a verdict.
  if (absl::Status written = measured.Write(ResultFile(directory, script->rank)); !written.ok()) return written;
  MeetFate(fates, box);
  StayUntilAllAreDone(directory, script->ranks);
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
