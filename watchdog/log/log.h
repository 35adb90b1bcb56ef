// Every line that ncclwatch writes for people. It goes to stderr if its level is at least that of NCCLWATCH_LOG, and
// into ncclwatch.log in the run directory at every level.
//
// stderr: each line begins "[ncclwatch rank R] " ("[ncclwatch] " from the command); one write(2) a call, up to
// PIPE_BUF; nothing in it steers a terminal; no full pipe holds the caller up for long. A host that has closed or
// replaced its stderr finds no line of ours in it.
//
// Any thread may log, also in a child of fork(): nothing here locks. Not in signal handlers, and not on the way of a
// wrapped call.
#pragma once

#include <fmt/core.h>

#include <cstdint>

#include "watchdog/descriptors/directory.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::log {

using Level = settings::LogLevel;

inline constexpr char kFile[] = "ncclwatch.log";
inline constexpr char kOlderFile[] = "ncclwatch.log.1";  // what the file was when it was full

void SetLevel(Level stderr_level);  // kWarn until then
void SetRank(std::int32_t rank);    // for processes of a job; negative: not known
void KeepIn(const descriptors::Directory& run_directory);

// A pipe without room holds a thread of the host's up for a shorter time than one of ours.
enum class Thread { kOurs, kHosts };
void Write(Thread thread, Level level, fmt::string_view format, fmt::format_args arguments);

template <class... T>
void Error(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kOurs, Level::kError, format, fmt::make_format_args(arguments...));
}
template <class... T>
void Warn(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kOurs, Level::kWarn, format, fmt::make_format_args(arguments...));
}
template <class... T>
void Info(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kOurs, Level::kInfo, format, fmt::make_format_args(arguments...));
}
template <class... T>
void Debug(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kOurs, Level::kDebug, format, fmt::make_format_args(arguments...));
}

namespace host {  // from threads of the host's

template <class... T>
void Error(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kHosts, Level::kError, format, fmt::make_format_args(arguments...));
}
template <class... T>
void Warn(fmt::format_string<T...> format, const T&... arguments) {
  Write(Thread::kHosts, Level::kWarn, format, fmt::make_format_args(arguments...));
}

}  // namespace host

}  // namespace ncclwatch::log
