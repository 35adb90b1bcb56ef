// Where lines go. Sinks have no lock, so that a child of fork() cannot wait for a thread that it does not have: a line
// is put together in the caller's memory, and the kernel keeps writes apart.
#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::log {

// Whose lines they are.
class Writer {
 public:
  constexpr Writer() = default;
  void SetRank(std::int32_t rank) { rank_.store(rank, std::memory_order_relaxed); }
  std::string Prefix() const;  // "[ncclwatch] " in the command, "[ncclwatch rank 3] " in a process of a job

 private:
  static constexpr std::int64_t kCommand = INT64_MIN;
  std::atomic<std::int64_t> rank_{kCommand};
};

// Each line of `text`, made printable, behind the prefix.
std::string Lines(std::string_view text, const std::string& prefix);

inline constexpr std::string_view kHostThread = "host";  // name of the logger that threads of the host's use

using Sink = spdlog::sinks::base_sink<spdlog::details::null_mutex>;

class StderrSink : public Sink {
 public:
  explicit StderrSink(const Writer* writer);

 private:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  const Writer* writer_;
};

// The file is opened for each line: a host may close descriptors that it does not know.
class FileSink : public Sink {
 public:
  explicit FileSink(const Writer* writer);
  // The directory before is not freed: another thread may be writing into it.
  void KeepIn(const descriptors::Directory& directory);
  bool has_place() const { return directory_.load(std::memory_order_relaxed) != nullptr; }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  const Writer* writer_;
  std::atomic<const descriptors::Directory*> directory_{nullptr};
};

}  // namespace ncclwatch::log
