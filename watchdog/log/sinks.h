// Where lines go. Sinks have no lock, so that a child of fork() cannot wait for a thread that it does not have: a line
// is put together in the caller's memory, and the kernel keeps writes apart.
#pragma once

#include <spdlog/formatter.h>
#include <spdlog/sinks/sink.h>

#include <atomic>
#include <cstdint>
#include <memory>
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

// Not spdlog's base_sink: that one formats by patterns, with the C++ library's locales.
class Sink : public spdlog::sinks::sink {
 public:
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
};

class StderrSink : public Sink {
 public:
  explicit StderrSink(const Writer* writer) : writer_(writer) {}
  void log(const spdlog::details::log_msg& message) override;

 private:
  const Writer* writer_;
};

// The file is opened for each line: a host may close descriptors that it does not know.
class FileSink : public Sink {
 public:
  explicit FileSink(const Writer* writer) : writer_(writer) {}
  void log(const spdlog::details::log_msg& message) override;
  // The directory before is not freed: another thread may be writing into it.
  void KeepIn(const descriptors::Directory& directory);
  bool has_place() const { return directory_.load(std::memory_order_relaxed) != nullptr; }

 private:
  const Writer* writer_;
  std::atomic<const descriptors::Directory*> directory_{nullptr};
};

}  // namespace ncclwatch::log
