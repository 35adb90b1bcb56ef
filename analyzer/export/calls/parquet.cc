#include "analyzer/export/calls/parquet.h"

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/export/calls/parquet_columns.h"
#include "analyzer/files/descriptor.h"
#include "analyzer/recording/worker.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::exporting {
namespace {

// A Python program that is fed through its standard input, and answers on its standard output.

class PythonChild {
 public:
  PythonChild() = default;
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;
  ~PythonChild();  // its input ends, and it is waited for

  // $NCCLWATCH_PYTHON, which the Python package sets, or the python3 of PATH, in isolated mode. The program is handed
  // over with -c.
  absl::Status Start(std::string_view program);
  const std::string& python() const { return python_; }
  absl::Status Write(std::string_view bytes);
  std::string ReadLine();  // empty: it has ended
  void EndOfInput() { to_ = Descriptor(); }
  absl::Status Wait();  // for its end

 private:
  std::string python_;
  pid_t pid_ = -1;
  Descriptor to_, from_;
};

// A program in a folder that PATH names absolutely: `.` would run what lies where the command is typed.
std::string FindInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path ? path : "/usr/bin:/bin", ':')) {
    const std::string found = absl::StrCat(folder, "/", name);
    if (absl::StartsWith(folder, "/") && access(found.c_str(), X_OK) == 0) return found;
  }
  return "";
}

// What the interpreter needs to start, and no variable that makes it load something.
std::vector<std::string> CleanEnvironment() {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable; ++variable)
    for (const char* name : {"HOME=", "LANG=", "LC_", "LD_LIBRARY_PATH=", "PATH=", "TMPDIR=", "TZ="})
      if (absl::StartsWith(*variable, name)) kept.emplace_back(*variable);
  return kept;
}

PythonChild::~PythonChild() {
  if (pid_ < 0) return;
  EndOfInput();
  Wait().IgnoreError();
}

absl::Status PythonChild::Start(std::string_view program) {
  const char* const named = std::getenv("NCCLWATCH_PYTHON");
  const std::string wanted = named && *named ? named : "python3";
  python_ = FindInPath(wanted);
  if (python_.empty()) {
    python_ = wanted;
    return absl::NotFoundError("it is not in PATH");
  }
  // A child that has died is told by the error of a write.
  std::signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const Descriptor child_in(in[0]);
  to_ = Descriptor(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const Descriptor child_out(out[1]);
  from_ = Descriptor(out[0]);
  fcntl(to_.get(), F_SETPIPE_SZ, 1 << 20);  // fewer switches between the two

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
  // Isolated: no module of the present directory, of PYTHONPATH or of the user's own folder comes first.
  std::string isolated = "-I", option = "-c", text(program);
  char* const words[] = {python_.data(), isolated.data(), option.data(), text.data(), nullptr};
  std::vector<std::string> variables = CleanEnvironment();
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const int error = posix_spawn(&pid_, python_.c_str(), &actions, nullptr, words, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return absl::ErrnoToStatus(error, python_);
}

absl::Status PythonChild::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(to_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, python_);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return absl::OkStatus();
}

std::string PythonChild::ReadLine() {
  std::string line;
  for (char next = 0;;) {
    const ssize_t count = read(from_.get(), &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || next == '\n') return line;
    line.push_back(next);
  }
}

absl::Status PythonChild::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status == 0 ? absl::OkStatus() : absl::UnavailableError(fmt::format("{} has failed", python_));
}

constexpr char kWriter[] =
#include "parquet_writer.inc"
    ;
// What is in memory of all nodes; a node's share is a row group, which is best large.
constexpr std::size_t kMostRows = 1 << 20, kMostRowsOfNode = 1 << 17, kLeastRowsOfNode = 1 << 12;
constexpr std::int64_t kHour_ns = 3'600'000'000'000;

// In the name of a folder.
std::string FolderWord(const std::string& text) {
  std::string word = Printable(text.empty() ? "unknown" : text);
  for (char& letter : word)
    if (letter == '/' || letter == '=' || letter == '%' || letter == '?' || letter == '\\') letter = '_';
  constexpr std::size_t kMostLetters = 64;
  return word.front() == '.' ? "_" + word.substr(0, kMostLetters) : word.substr(0, kMostLetters);
}

struct Node {
  std::string name;
  std::int64_t hour = 0;  // of the rows, since 1970
  ParquetColumns columns;
};

class Parquet : public CallExporter {
 public:
  explicit Parquet(const Source& source) : CallExporter(source) {
    std::set<std::string> hosts;
    for (const ProcessRecording& process : source.recording.processes()) hosts.insert(process.process().host);
    most_rows_ = std::clamp(kMostRows / std::max<std::size_t>(1, hosts.size()), kLeastRowsOfNode, kMostRowsOfNode);
    nodes_of_.resize(source.recording.processes().size());
  }

  absl::Status Start(const std::string& folder) {
    const absl::Status started = python_.Start(kWriter);
    const std::string said = started.ok() ? python_.ReadLine() : std::string(started.message());
    if (said != "ready")
      return absl::FailedPreconditionError(fmt::format(
          "Parquet is written by pyarrow, and {} has none ({}): pip install 'ncclwatch[arrow]' or pyarrow, or "
          "name a Python that has it in NCCLWATCH_PYTHON",
          python_.python(), said));
    return python_.Write(nlohmann::ordered_json({{"out", folder}, {"columns", ParquetColumns::Schema()}}).dump() +
                         "\n");
  }

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    Node& node = NodeOf(merged);
    const std::int64_t hour = facts.time_ns / kHour_ns;
    if (node.columns.rows() > 0 && (node.columns.rows() == most_rows_ || hour != node.hour))
      if (absl::Status status = Send(&node); !status.ok()) return status;
    node.hour = hour;
    node.columns.Add(merged, facts, source_.sites.Of(merged));
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    for (auto& [host, node] : nodes_)
      if (node->columns.rows() > 0)
        if (absl::Status status = Send(node.get()); !status.ok()) return status;
    if (absl::Status status = Sent(); !status.ok()) return status;
    python_.EndOfInput();
    const auto files = nlohmann::json::parse(python_.ReadLine(), nullptr, false);
    if (absl::Status status = python_.Wait(); !status.ok()) return status;
    if (!files.is_array()) return absl::UnavailableError("pyarrow wrote nothing");
    for (const auto& file : files) files_.push_back(file.get<std::string>());
    return absl::OkStatus();
  }

 private:
  Node& NodeOf(const MergedCall& merged) {
    Node*& known = nodes_of_[merged.number];
    if (known) return *known;
    std::unique_ptr<Node>& node = nodes_[merged.piece.host];
    if (!node) node = std::make_unique<Node>(Node{FolderWord(merged.piece.host), 0, {}});
    return *(known = node.get());
  }
  absl::Status Send(Node* node) {
    ParquetColumns::Batch batch = node->columns.Take();
    batch.head["node"] = node->name;
    batch.head["hour"] =
        absl::FormatTime("%Y-%m-%dT%H", absl::FromUnixNanos(node->hour * kHour_ns), absl::UTCTimeZone());
    if (absl::Status status = Sent(); !status.ok()) return status;
    sent_ = sender_.Ask([this, batch = std::make_shared<ParquetColumns::Batch>(std::move(batch))]() {
      if (absl::Status status = python_.Write(batch->head.dump() + "\n"); !status.ok()) return status;
      return python_.Write(batch->body.view());
    });
    return absl::OkStatus();
  }
  // The last batch. While Python takes it, the next one is filled.
  absl::Status Sent() { return sent_.valid() ? sent_.get() : absl::OkStatus(); }

  std::size_t most_rows_ = 0;
  PythonChild python_;
  absl::flat_hash_map<std::string, std::unique_ptr<Node>> nodes_;  // by host
  std::vector<Node*> nodes_of_;                                    // by process
  std::future<absl::Status> sent_;
  Worker sender_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> ToParquet(const Source& source, const std::string& folder) {
  auto parquet = std::make_unique<Parquet>(source);
  if (absl::Status status = parquet->Start(folder); !status.ok()) return status;
  return parquet;
}

}  // namespace ncclwatch::analyzer::exporting
