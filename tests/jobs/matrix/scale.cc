#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/view/from_boxes.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"

namespace ncclwatch::jobs {
namespace {

namespace fs = std::filesystem;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Reads every file as a program would that does nothing else.
double ReadAll(const std::string& folder, std::uint64_t* bytes) {
  static char buffer[1 << 20];
  const double began = Now();
  *bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) *bytes += static_cast<std::uint64_t>(got);
    close(fd);
  }
  return Now() - began;
}

// Of this program alone: ru_maxrss begins with what its parent had.
double PeakGiB() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (double kib = 0; word == "VmHWM:" && status >> kib) return kib / (1 << 20);
  return 0;
}

// Boxes of one job with `records` in each ring.
bool WriteJob(const Options& options, int ranks, const std::string& folder) {
  const std::uint64_t records = options.Number("records", 2048);
  Shape shape = options.OneShape();
  shape.ranks = ranks;
  if (!options.Has("fault")) shape.fault = "missing_participant";
  shape.steps = 3;
  shape.late = true;
  {
    Generated probe;  // how many records a step makes
    if (!Generate(shape, &probe)) return false;
    const std::size_t each = std::max<std::size_t>(probe.world->rank(0).records.size() / 3, 1);
    shape.steps = static_cast<int>(records * 5 / 4 / each + 4);
  }
  Generated made;
  if (!Generate(shape, &made)) return false;
  made.job.ring = static_cast<std::uint32_t>(records);
  fs::remove_all(folder);
  return WriteBoxes(made, folder);
}

int RunSelf(const char* self, const std::string& folder, const Options& options) {
  const std::string limit = options.Text("limit-gib", "12");
  const char* arguments[] = {self, "timed", "--dir", folder.c_str(), "--limit-gib", limit.c_str(), nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ) != 0) return 3;
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

}  // namespace

int RunTimed(const Options& options) {
  const std::string folder = options.Text("dir", ".");
  const rlim_t limit = options.Number("limit-gib", 12) << 30;
  const rlimit bound{limit, limit};
  setrlimit(RLIMIT_AS, &bound);
  std::uint64_t bytes = 0;
  ReadAll(folder, &bytes);
  const double reading = ReadAll(folder, &bytes);
  const double began = Now();
  reader::RunImage run = reader::ReadRun({folder});
  const double read = Now();
  const std::size_t boxes = run.boxes.size();
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes(std::move(run.boxes)));
  const double judged = Now();
  std::printf(
      "%6zu %8.2f %9.3f %9.3f %9.3f %7.2f %9.2f  %s\n", boxes, static_cast<double>(bytes) / (1 << 30), reading,
      read - began, judged - read, (judged - began) / reading, PeakGiB(),
      diagnosis.findings.empty() ? "nothing" : std::string(diagnosis::Name(diagnosis.findings[0].kind)).c_str());
  return 0;
}

int RunScale(const Options& options, const char* self) {
  const std::string folder = options.Text("dir", "/dev/shm/ncclwatch-scale");
  std::printf("%6s %8s %9s %9s %9s %7s %9s  %s\n", "ranks", "GiB", "files s", "boxes s", "verdict s", "ratio",
              "peak GiB", "found");
  int status = 0;
  for (const std::string& ranks : options.List("ranks", {"1024", "2048", "4096"})) {
    std::fflush(stdout);
    if (!WriteJob(options, std::atoi(ranks.c_str()), folder)) {
      std::fprintf(stderr, "cannot make the boxes of %s ranks in %s\n", ranks.c_str(), folder.c_str());
      status = 3;
    } else if (RunSelf(self, folder, options) != 0) {
      std::printf("%6s  no verdict within %s GiB\n", ranks.c_str(), options.Text("limit-gib", "12").c_str());
      status = 1;
    }
    if (!options.Has("keep")) fs::remove_all(folder);
  }
  return status;
}

}  // namespace ncclwatch::jobs
