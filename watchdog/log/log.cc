#include "watchdog/log/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <string>

#include "watchdog/log/sinks.h"

namespace ncclwatch::log {
namespace {

constinit Writer writer;

// Made by the first who needs it, and never destroyed: threads log until the process is gone.
struct Log {
  std::shared_ptr<StderrSink> to_stderr = std::make_shared<StderrSink>(&writer);
  std::shared_ptr<FileSink> to_file = std::make_shared<FileSink>(&writer);
  spdlog::logger ours{"", {to_stderr, to_file}};
  spdlog::logger hosts{std::string(kHostThread), {to_stderr, to_file}};

  Log() {
    to_stderr->set_level(spdlog::level::warn);
    for (spdlog::logger* logger : {&ours, &hosts}) {
      logger->set_level(spdlog::level::debug);  // the sinks decide
      logger->set_error_handler([](const std::string&) {});
    }
  }
};
constinit std::atomic<Log*> log{nullptr};

Log& Get() {
  if (Log* const there = log.load(std::memory_order_acquire)) return *there;
  auto made = std::make_unique<Log>();
  Log* expected = nullptr;
  if (log.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *expected;
}

spdlog::level::level_enum Spdlogs(Level level) {
  switch (level) {
    case Level::kOff: return spdlog::level::off;
    case Level::kError: return spdlog::level::err;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kInfo: return spdlog::level::info;
    case Level::kDebug: return spdlog::level::debug;
  }
  return spdlog::level::warn;
}

// Without memory a line is lost. What is not a std::exception is pthread_cancel() on its way.
template <class Act>
void Try(Act act) {
  const int kept = errno;
  try {
    act(Get());
  } catch (const std::exception&) {
  }
  errno = kept;
}

}  // namespace

void SetLevel(Level stderr_level) {
  Try([&](Log& to) { to.to_stderr->set_level(Spdlogs(stderr_level)); });
}

void SetRank(std::int32_t rank) { writer.SetRank(rank); }

void KeepIn(const descriptors::Directory& run_directory) {
  Try([&](Log& to) { to.to_file->KeepIn(run_directory); });
}

void Write(Thread thread, Level level, fmt::string_view format, fmt::format_args arguments) {
  Try([&](Log& to) {
    const spdlog::level::level_enum wanted = Spdlogs(level);
    if (!to.to_stderr->should_log(wanted) && !to.to_file->has_place()) return;
    const std::string text = fmt::vformat(format, arguments);
    spdlog::logger& logger = thread == Thread::kHosts ? to.hosts : to.ours;
    logger.log(spdlog::source_loc{}, wanted, spdlog::string_view_t(text));
  });
}

}  // namespace ncclwatch::log
