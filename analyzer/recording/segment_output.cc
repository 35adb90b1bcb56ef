#include "analyzer/recording/segment_output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <utility>

#include "analyzer/console/print.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostWaiting = 1u << 20;  // calls, about 200 MB
constexpr std::chrono::seconds kWriteAgain(1);    // after a write that failed: the disk may have room again
constexpr std::uint64_t kFileBytes = 64u << 20;   // then the next file begins
constexpr std::uint64_t kFilesOfLimit = 8;        // with a limit of bytes a file is this part of it at most

}  // namespace

SegmentOutput::SegmentOutput(CollectorRequest request) : request_(std::move(request)) {
  // Signals are for the thread that waits for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SegmentOutput::~SegmentOutput() {
  if (thread_.joinable()) Finish();
}

bool SegmentOutput::full() const {
  const std::lock_guard lock(mutex_);
  return calls_waiting_ >= kMostWaiting;
}

void SegmentOutput::Add(Segment segment) {
  {
    const std::lock_guard lock(mutex_);
    calls_waiting_ += segment.image.calls.size();
    waiting_.push_back(std::move(segment));
  }
  changed_.notify_one();
}

void SegmentOutput::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::uint64_t SegmentOutput::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::uint64_t SegmentOutput::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void SegmentOutput::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return finishing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Segment& segment = waiting_.front();  // stays where it is, whatever is added
    lock.unlock();
    const bool written = Write(segment);
    lock.lock();
    if (!written && !finishing_) {
      changed_.wait_for(lock, kWriteAgain, [this] { return finishing_; });
      if (!finishing_) continue;
    }
    const std::uint64_t calls = segment.image.calls.size(), slots = segment.end - segment.begin;
    calls_ += written ? calls : 0;
    lost_ += written ? slots - calls : slots;
    calls_waiting_ -= calls;
    waiting_.pop_front();
  }
}

bool SegmentOutput::Write(const Segment& segment) {
  const std::string bytes = ToSegment(segment.image, segment.begin, segment.end, segment.last);
  MakeRoom(bytes.size());
  const absl::Status written = file_->Append(bytes);
  if (!written.ok()) {
    if (!failed_)
      Complain("collect", "{}; calls are lost if more come than memory holds before it can be written",
               std::string(written.message()));
    file_.reset();
  }
  failed_ = !written.ok();
  return written.ok();
}

// Room for a segment of so many bytes.
void SegmentOutput::MakeRoom(std::uint64_t bytes) {
  const std::uint64_t limit = request_.most_bytes;
  const std::uint64_t largest = std::min(kFileBytes, static_cast<std::uint64_t>(descriptors::FileSizeLimit()));
  const std::uint64_t most = limit == 0 ? largest : std::min(largest, limit / kFilesOfLimit);
  std::error_code ignored;
  if (!file_ || (file_->bytes() != 0 && file_->bytes() + bytes > most)) {
    const std::string host = rundir::HostName();
    do
      file_ = std::make_unique<SegmentWriter>(
          fmt::format("{}/{}.{}.{}{}", request_.to, host, getpid(), ++files_, format::kSegmentSuffix));
    while (fs::exists(file_->path(), ignored));
    written_files_.push_back(file_->path());
  }
  if (limit == 0) return;
  std::uint64_t there = bytes;
  for (const std::string& path : written_files_) there += fs::exists(path, ignored) ? fs::file_size(path, ignored) : 0;
  while (there > limit && written_files_.size() > 1) {
    const std::string& oldest = written_files_.front();
    there -= fs::exists(oldest, ignored) ? fs::file_size(oldest, ignored) : 0;
    fs::remove(oldest, ignored);
    written_files_.erase(written_files_.begin());
  }
}

}  // namespace ncclwatch::analyzer
