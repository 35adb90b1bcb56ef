#include "analyzer/console/progress.h"

#include <unistd.h>

#include <cstdio>

#include "analyzer/console/units.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::int64_t kQuietFirst = kSecond;   // shorter work shows no bar
constexpr std::int64_t kRedraw = kSecond / 10;  // an eye does not read faster
constexpr std::size_t kCells = 30;

}  // namespace

Progress::Progress(std::string label, std::size_t total)
    : label_(std::move(label)), total_(total), began_ns_(MonotonicNow()), terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (drawn_ns_ != 0) std::fputs("\r\033[K", stderr);
}

void Progress::Done(std::size_t done) {
  if (!terminal_ || total_ == 0) return;
  const std::int64_t now = MonotonicNow();
  if (now - began_ns_ < kQuietFirst || now - drawn_ns_ < kRedraw) return;
  drawn_ns_ = now;
  const std::size_t filled = done * kCells / total_;
  std::string bar(kCells, '.');
  bar.replace(0, filled, filled, '#');
  std::fprintf(stderr, "\r%s [%s] %zu/%zu", label_.c_str(), bar.c_str(), done, total_);
}

}  // namespace ncclwatch::analyzer
