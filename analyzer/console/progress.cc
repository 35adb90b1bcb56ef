#include "analyzer/console/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace ncclwatch::analyzer {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kQuietFirst = 1s;  // shorter work shows no bar
constexpr auto kRedraw = 100ms;   // an eye does not read faster
constexpr std::size_t kCells = 30;

}  // namespace

Progress::Progress(std::string label, std::size_t total)
    : label_(std::move(label)), total_(total), began_(Clock::now()), terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (drawn_ != Clock::time_point()) std::fputs("\r\033[K", stderr);
}

void Progress::Done(std::size_t done) {
  if (!terminal_ || total_ == 0) return;
  const auto now = Clock::now();
  if (now - began_ < kQuietFirst || now - drawn_ < kRedraw) return;
  drawn_ = now;
  const std::string bar(done * kCells / total_, '#');
  std::fputs(fmt::format("\r{} [{:.<{}}] {}/{}", label_, bar, kCells, done, total_).c_str(), stderr);
}

}  // namespace ncclwatch::analyzer
