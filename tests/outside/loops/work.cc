#include "work.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace loops {
namespace {

double Ms(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void SleepMs(double ms) {
  const auto ns = static_cast<int64_t>(ms * 1e6);
  timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  while (nanosleep(&time, &time) != 0) {
  }
}

// Both count the thread's own processor time, so that other load does not shorten them.
void BurnMs(double ms) {
  volatile double sum = 0;
  for (const double end = Ms(CLOCK_THREAD_CPUTIME_ID) + ms; Ms(CLOCK_THREAD_CPUTIME_ID) < end;) {
    for (int i = 0; i < 20000; ++i) sum = sum + i;
  }
}

void FaultPagesMs(double ms) {
  constexpr size_t kSize = 8 << 20;
  for (const double end = Ms(CLOCK_THREAD_CPUTIME_ID) + ms; Ms(CLOCK_THREAD_CPUTIME_ID) < end;) {
    void* fresh = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(fresh, kSize, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < kSize; at += 4096) static_cast<volatile char*>(fresh)[at] = 1;
    munmap(fresh, kSize);
  }
}

void Need(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

void Add(std::atomic<double>* sum, double value) {
  double before = sum->load();
  while (!sum->compare_exchange_weak(before, before + value)) {
  }
}

}  // namespace

double NowMs() { return Ms(CLOCK_MONOTONIC); }

Options::Options(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) values_[std::string(argv[i]).substr(2)] = argv[i + 1];
}

double Options::operator[](const std::string& name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? 0 : std::atof(at->second.c_str());
}

std::string Options::Text(const std::string& name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? "" : at->second;
}

Work::Work(const Options& options, int rank)
    : options_(options),
      rank_(rank),
      culprit_(static_cast<int>(options["culprit"])),
      jitter_(static_cast<unsigned>(options["seed"]) * 1009U + static_cast<unsigned>(rank)),
      lateness_(static_cast<unsigned>(options["seed"])),
      times_(static_cast<size_t>(options["steps"])) {
  if (options["input-ms"] > 0 && (Culprit() || culprit_ < 0)) StartFeeder();
  if (options["stop-ms"] > 0 && Culprit()) StartStopper();
}

Work::~Work() {
  const std::string path = options_.Text("log") + "/rank-" + std::to_string(rank_) + ".json";
  std::FILE* file = std::fopen(path.c_str(), "we");
  Need(file != nullptr, path.c_str());
  std::fprintf(file, "{\"elapsed_ms\": %.3f", NowMs() - began_);
  for (const auto& [name, member] :
       {std::pair{"began_ms", &StepTimes::began}, std::pair{"intended_ms", &StepTimes::intended},
        std::pair{"actual_ms", &StepTimes::actual}, std::pair{"planted_ms", &StepTimes::planted}}) {
    std::fprintf(file, ",\n\"%s\": [", name);
    for (size_t i = 0; i < times_.size(); ++i) std::fprintf(file, "%s%.3f", i ? ", " : "", (times_[i].*member).load());
    std::fprintf(file, "]");
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
}

void Work::BeginStep(long step) {
  step_ = step;
  if (step == 0) began_ = NowMs();
  times_[static_cast<size_t>(step)].began = NowMs() - began_;
  std::uniform_real_distribution<double> around(0.95, 1.05);
  step_ms_ = options_["step-ms"] * around(jitter_);
  if (options_["grow-at"] > 0 && step >= options_["grow-at"]) step_ms_ *= 1 + options_["grow-percent"] / 100;
  if (Culprit()) step_ms_ *= 1 + options_["uneven-percent"] / 100;
  const double share = options_["late-share"];
  late_now_ = share > 0 ? std::uniform_real_distribution<double>(0, 1)(lateness_) < share : Every("late-every");
  if (options_["onset-at"] > 0 && step == options_["onset-at"] && rank_ == 0) {
    const int file = open((options_.Text("log") + "/onset").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    Need(file >= 0, "onset");
    close(file);
  }
}

void Work::Compute(double ms) {
  const double began = NowMs();
  SleepMs(ms);
  StepTimes& times = times_[static_cast<size_t>(step_)];
  Add(&times.intended, ms);
  Add(&times.actual, NowMs() - began);
}

void Work::Plant(double began) { Add(&times_[static_cast<size_t>(step_)].planted, NowMs() - began); }

double Work::LateMs() const { return Culprit() && late_now_ ? options_["late-ms"] : 0; }

void Work::BeLate() {
  const std::string form = options_.Text("late-form");
  const double ms = LateMs(), began = NowMs();
  if (ms <= 0 || form == "device") return;
  if (form == "busy") {
    BurnMs(ms);
  } else if (form == "faults") {
    FaultPagesMs(ms);
  } else {
    SleepMs(ms);
  }
  Plant(began);
}

double Work::LateOnDeviceMs() const { return options_.Text("late-form") == "device" ? LateMs() : 0; }

void Work::BeLateOnDevice(double ms) {
  const double began = NowMs();
  SleepMs(ms);
  Plant(began);
}

// A child that gives one batch at a time, later than the loop wants it. The pipe holds less than a batch.
void Work::StartFeeder() {
  int ends[2];
  const std::string path = options_.Text("log") + "/samples-" + std::to_string(rank_);
  const bool named = options_.Text("input") == "fifo";
  Need(named ? mkfifo(path.c_str(), 0600) == 0 : pipe(ends) == 0, "pipe");
  const double ms = options_["input-ms"];
  const size_t size = static_cast<size_t>(options_["batch"]);
  const pid_t child = fork();
  Need(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = named ? open(path.c_str(), O_WRONLY) : ends[1];
    if (!named) close(ends[0]);
    const std::vector<char> batch(size, 1);
    for (;;) {
      SleepMs(ms);
      for (size_t done = 0; done < size;) {
        const ssize_t n = write(out, batch.data() + done, size - done);
        if (n <= 0) _exit(0);
        done += static_cast<size_t>(n);
      }
    }
  }
  input_ = named ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : ends[0];
  if (!named) close(ends[1]);
}

void Work::ReadBatch(std::vector<char>* batch) {
  if (input_ < 0) {
    std::memset(batch->data(), static_cast<int>(step_), batch->size());
    return;
  }
  const double began = NowMs();
  for (size_t done = 0; done < batch->size();) {
    const ssize_t n = read(input_, batch->data() + done, batch->size() - done);
    Need(n > 0, "read");
    done += static_cast<size_t>(n);
  }
  Plant(began);
}

// Takes the processor from this rank again and again, as a batch system that suspends jobs does.
void Work::StartStopper() const {
  const pid_t rank = getpid(), child = fork();
  Need(child >= 0, "fork");
  if (child != 0) return;
  SleepMs(1000);
  while (getppid() == rank) {
    kill(rank, SIGSTOP);
    SleepMs(options_["stop-ms"]);
    kill(rank, SIGCONT);
    SleepMs(options_["run-ms"]);
  }
  _exit(0);
}

// Pieces, each on the disk before the next one, until the time is over: it takes as long on a disk of any speed.
void Work::Checkpoint(const std::vector<char>& state) {
  const double began = NowMs();
  const std::string path = options_.Text("log") + "/checkpoint.pt";
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  Need(file >= 0, path.c_str());
  constexpr int kPieces = 32;
  int piece = 0;
  do {
    const off_t at = static_cast<off_t>(state.size()) * (piece++ % kPieces);
    Need(pwrite(file, state.data(), state.size(), at) == static_cast<ssize_t>(state.size()), "write");
    if (options_["checkpoint-ms"] > 0) Need(fsync(file) == 0, "fsync");
  } while (NowMs() - began < options_["checkpoint-ms"]);
  close(file);
  Plant(began);
}

bool Work::Every(const char* option) const {
  const long n = static_cast<long>(options_[option]);
  return n > 0 && step_ % n == n - 1;
}

}  // namespace loops
