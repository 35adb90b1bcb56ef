// What a rank of a training loop does between its calls of NCCL or MPI: it reads batches, computes, writes checkpoints;
// and what slows it, if an option asks for that. Options are `--name value`; run.py draws them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace loops {

class Options {
 public:
  Options(int argc, char** argv);
  double operator[](const std::string& name) const;  // 0 if it is not given
  std::string Text(const std::string& name) const;   // empty if it is not given

 private:
  std::map<std::string, std::string> values_;
};

// Times of one rank in one step, in ms. `planted` is what slows it on purpose; `began` is since the first step.
struct StepTimes {
  std::atomic<double> began{0}, intended{0}, actual{0}, planted{0};
};

class Work {
 public:
  // Before NCCL or MPI is initialized: forks the helpers of this rank.
  Work(const Options& options, int rank);
  ~Work();  // writes the times of all steps to DIR/rank-N.json (--log DIR)

  void BeginStep(long step);
  // The whole computation of a step in ms: jitter, growth and the uneven stage included. The caller divides it.
  double StepMs() const { return step_ms_; }
  void Compute(double ms);  // thread-safe: a kernel may call it

  void ReadBatch(std::vector<char>* batch);
  void BeLate();  // the straggler's extra time, on the host
  double LateOnDeviceMs() const;
  void BeLateOnDevice(double ms);  // a kernel calls it
  void Checkpoint(const std::vector<char>& state);
  bool Every(const char* option) const;  // is this step an N-th one?

 private:
  bool Culprit() const { return rank_ == culprit_; }
  double LateMs() const;
  void StartFeeder();
  void StartStopper() const;
  void Plant(double began);

  const Options& options_;
  const int rank_, culprit_;
  long step_ = 0;
  double step_ms_ = 0, began_ = 0;
  int input_ = -1;
  std::mt19937 jitter_, lateness_;
  bool late_now_ = false;
  std::vector<StepTimes> times_;
};

double NowMs();

}  // namespace loops
