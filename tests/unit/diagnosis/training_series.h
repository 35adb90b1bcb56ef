// Trainings as the numbers that they say: healthy ones of many shapes, and one fault in each of the others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "core/slow/series.h"

namespace ncclwatch::diagnosis::testing {

constexpr double kGiB = 1024.0 * 1024 * 1024;

class Training {
 public:
  Training(int ranks, int steps, unsigned seed)
      : random(seed), ranks_(static_cast<std::size_t>(ranks)), steps_(steps) {}

  // value(rank, step) of every rank in every step.
  template <class Value>
  void Say(const char* metric, Value value) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (int step = 0; step < steps_; ++step)
        ranks_[rank].notes.push_back({format::NoteKind::kMetric, At(step), step,
                                      static_cast<double>(value(static_cast<int>(rank), step)), metric});
  }
  void Event(int rank, int step, const char* type) {
    ranks_[static_cast<std::size_t>(rank)].events.push_back({At(step), step, type});
  }
  // In a share of the value: 0.05.
  double Noise(double share) { return 1 + share * normal_(random); }
  double Between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); }
  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

  // As it was known when this step began.
  void CutAt(int step) {
    steps_ = step;
    for (Rank& rank : ranks_) {
      std::erase_if(rank.notes, [step](const reader::Note& note) { return note.step >= step; });
      std::erase_if(rank.events, [step](const reader::Event& event) { return event.step >= step; });
    }
  }

  std::vector<RankNumbers> Numbers() const {
    std::vector<RankNumbers> all;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      all.push_back({static_cast<int>(rank), 0, &ranks_[rank].notes, &ranks_[rank].events});
    return all;
  }
  std::int64_t now_ns() const { return At(steps_); }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  int steps() const { return steps_; }

  std::mt19937_64 random;

 private:
  static std::int64_t At(int step) { return step * std::int64_t{500'000'000}; }
  struct Rank {
    std::vector<reader::Note> notes;
    std::vector<reader::Event> events;
  };
  std::deque<Rank> ranks_;
  int steps_;
  std::normal_distribution<double> normal_{0, 1};
};

// Falls throughout: exponentials, powers, a cosine, with a warm-up or without; `shape` from 0 to 5.
inline double HealthyLoss(int shape, double guessing, int step, int steps) {
  const double x = static_cast<double>(step) / steps;
  switch (shape) {
    case 0: return guessing * (0.2 + 0.8 * std::exp(-3 * x));
    case 1: return guessing * (0.5 + 0.5 * std::exp(-1.5 * x));
    case 2: return guessing * std::pow(1 + step / 10.0, -0.15);
    case 3: return guessing * (0.3 + 0.7 / std::sqrt(1 + step / 20.0));
    case 4: return guessing * (0.4 + 0.3 * (1 + std::cos(3.14159 * (0.1 + 0.8 * x))));
    default: return guessing * (step < 80 ? 1.0 : std::pow(1 + (step - 80) / 30.0, -0.25));  // of the learning rate
  }
}

struct Memory {
  double level = 20 * kGiB;
  double jitter = 0.01;   // of activations, by the sequences' lengths
  int warm_up = 20;       // steps
  int collect_every = 0;  // steps, between collections of garbage; 0: none
  double garbage = 0;     // for each step, until then
  int evaluate_every = 100;
  double evaluation = 0.3;  // more
  int leak_from = 0;
  double leak = 0;  // for each step ...
  int stairs = 1;   // ... but at once every so many
};

inline double Allocated(const Memory& memory, int step, Training* training) {
  double bytes = memory.level * (1 - 0.5 * std::exp(-3.0 * step / memory.warm_up)) * training->Noise(memory.jitter);
  if (memory.collect_every > 0) bytes += memory.garbage * (step % memory.collect_every);
  if (step % memory.evaluate_every >= memory.evaluate_every - 3) bytes *= 1 + memory.evaluation;
  return bytes + memory.leak * (std::max(0, step - memory.leak_from) / memory.stairs * memory.stairs);
}

// Everything that a training may say, nothing wrong with it. noise: in shares of the values.
inline Training Healthy(unsigned seed, bool with_loss = true, bool with_memory = true, bool with_checkpoints = true,
                        bool with_speed = true) {
  std::mt19937_64 random(seed * 7919 + 1);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Training training(1 << pick(0, 2), pick(250, 800), seed);
  const double noise = between(0.01, 0.10);
  if (with_loss) {
    const int shape = pick(0, 5), classes = pick(2, 3) == 2 ? 1000 : 32000;
    training.Say("classes", [&](int, int) { return classes; });
    training.Say("loss", [&](int, int step) {
      return HealthyLoss(shape, std::log(classes), step, training.steps()) * training.Noise(noise);
    });
  }
  if (with_memory) {
    Memory memory{.jitter = between(0.0, 0.10), .warm_up = pick(5, 60), .evaluate_every = pick(40, 300)};
    if (pick(0, 1)) memory.collect_every = pick(10, 120), memory.garbage = between(0.0005, 0.002) * memory.level;
    const double gap = between(0.05, 0.3) * memory.level;
    training.Say("memory_allocated", [&](int, int step) { return Allocated(memory, step, &training); });
    // As much as was ever needed, nearly all of it after some steps.
    training.Say("memory_reserved", [&](int, int step) {
      return memory.level * 1.6 + gap * (1 - std::exp(-4.0 * step / memory.warm_up)) * training.Noise(0.01);
    });
    training.Say("memory_total", [](int, int) { return 80 * kGiB; });
  }
  if (with_checkpoints) {
    const int every = pick(20, 150);
    for (int step = pick(1, every); step < training.steps();
         step += std::max(1, static_cast<int>(every * between(0.6, 1.4))))
      for (int rank = 0; rank < training.ranks(); ++rank) training.Event(rank, step, "checkpoint");
  }
  if (with_speed) {
    const int evaluate_every = pick(20, 200), warm_up = pick(1, 50);
    training.Say("tokens_per_s", [&](int, int step) {
      const double warm = 1 - 0.6 * std::exp(-3.0 * step / warm_up);
      return 4000 * warm * training.Noise(noise) * (step % evaluate_every == 0 ? 0.4 : 1);
    });
  }
  return training;
}

}  // namespace ncclwatch::diagnosis::testing
