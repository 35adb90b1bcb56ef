#include "analyzer/import/otf2/import.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/files/input_file.h"
#include "analyzer/import/otf2/archive.h"

namespace ncclwatch::analyzer::import::otf2 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What the child has done so far, a line of JSON each.
class ReportWriter {
 public:
  explicit ReportWriter(int to) : to_(to) {}
  void Say(const json& line) const {
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t written = write(to_, text.data() + at, text.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) _exit(1);  // nobody listens any more
      at += static_cast<std::size_t>(written);
    }
  }

 private:
  int to_;
};

void ReadInChild(const std::vector<std::string>& anchors, const TraceWriter& writer, const ReportWriter& report) {
  const auto reads = [&](const std::string& file) { report.Say({{"reads", file}}); };
  const auto take = [&](Trace trace) {
    const reader::BoxImage box = Finish(std::move(trace));
    const absl::Status status = writer.Add(box);
    report.Say({{"calls", box.calls.size()},
                {"operations", box.operations.all.size()},
                {"status", status.ok() ? json(nullptr) : json(std::string(status.message()))}});
  };
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    Imported imported;
    ReadArchive(anchors[i], reads, take, &imported);
    for (const reader::Failure& failure : imported.failures)
      report.Say({{"failed", failure.path}, {"why", failure.reason}});
    for (const std::string& note : imported.notes) report.Say({{"remark", note}});
    report.Say({{"done", i + 1}});
  }
}

// The parent's side.
class ReportReader {
 public:
  explicit ReportReader(FilesRead done) : done_(done) {}

  void Read(int from) {
    char piece[1 << 14];
    std::string rest;
    for (;;) {
      const ssize_t got = read(from, piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return;
      rest.append(piece, static_cast<std::size_t>(got));
      for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
        Hear(json::parse(rest.substr(0, end), nullptr, false));
        rest.erase(0, end + 1);
      }
    }
  }
  void Ended(int how) {
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return;
    const std::string why = WIFSIGNALED(how) ? fmt::format("signal {} ({})", WTERMSIG(how), strsignal(WTERMSIG(how)))
                                             : fmt::format("status {}", WEXITSTATUS(how));
    imported_.failures.push_back({reads_, "damaged: OTF2's library ended with " + why + " while it read this file"});
  }
  absl::StatusOr<Imported> Take() {
    if (!status_.ok()) return status_;
    return std::move(imported_);
  }

 private:
  void Hear(const json& line) {
    if (!line.is_object()) return;
    if (line.contains("reads")) reads_ = line.value("reads", "");
    if (std::string remark = line.value("remark", ""); !remark.empty()) imported_.notes.push_back(std::move(remark));
    if (line.contains("failed")) imported_.failures.push_back({line.value("failed", ""), line.value("why", "")});
    if (line.contains("done")) done_(line.value("done", std::size_t{0}));
    if (!line.contains("calls")) return;
    ++imported_.processes;
    imported_.calls += line.value("calls", std::uint64_t{0});
    imported_.operations += line.value("operations", std::uint64_t{0});
    if (line["status"].is_string()) status_.Update(absl::UnavailableError(line.value("status", "")));
  }

  const FilesRead done_;
  std::string reads_;  // the file that is read at the moment
  Imported imported_;
  absl::Status status_;
};

std::uint64_t BytesOf(const std::vector<std::string>& anchors) {
  std::uint64_t bytes = 0;
  for (const std::string& anchor : anchors) {
    std::error_code error;
    const fs::path folder = fs::path(anchor).parent_path();
    for (fs::recursive_directory_iterator next(folder.empty() ? "." : folder, error), end; !error && next != end;
         next.increment(error))
      if (const std::uintmax_t size = next->file_size(error); !error) bytes += size;
  }
  return bytes;
}

std::uint64_t MappedBytes() {
  constexpr std::uint64_t kLine = 4096;
  std::uint64_t pages = 0;
  if (const auto line = ReadFile("/proc/self/statm", kLine); line.ok())
    std::from_chars(line->data(), line->data() + line->size(), pages);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// A damaged number makes the library ask for any amount of memory, and walk through it.
void LimitMemory(const std::vector<std::string>& anchors) {
  constexpr std::uint64_t kAtLeast = 4ull << 30, kForEachByte = 64;
  const rlim_t most = MappedBytes() + kAtLeast + kForEachByte * BytesOf(anchors);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur <= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_AS, &limit);
}

// A crash is expected here: no core, and none of the library's last words.
void BeQuiet() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (const int null = open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) dup2(null, STDERR_FILENO);
}

}  // namespace

absl::StatusOr<Imported> ImportArchives(const std::vector<std::string>& anchors, const TraceWriter& writer,
                                        FilesRead done) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "a pipe");
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "a process");
  if (child == 0) {
    close(ends[0]);
    BeQuiet();
    LimitMemory(anchors);
    ReadInChild(anchors, writer, ReportWriter(ends[1]));
    _exit(0);
  }
  close(ends[1]);
  ReportReader report(done);
  report.Read(ends[0]);
  close(ends[0]);
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
  report.Ended(how);
  return report.Take();
}

}  // namespace ncclwatch::analyzer::import::otf2
