// Lines on stderr, or in the run directory's log where the host has replaced that, each beginning "[ncclwatch rank R]".
// One write(2) a call, so that ranks do not mix within one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "watchdog/settings/settings.h"

namespace ncclwatch::watch {

class Log {
 public:
  Log(settings::LogLevel level, std::int32_t rank);
  void Error(std::string_view text) const { Say(settings::LogLevel::kError, text); }
  void Warn(std::string_view text) const { Say(settings::LogLevel::kWarn, text); }
  void Info(std::string_view text) const { Say(settings::LogLevel::kInfo, text); }
  void Debug(std::string_view text) const { Say(settings::LogLevel::kDebug, text); }

 private:
  void Say(settings::LogLevel level, std::string_view text) const;
  settings::LogLevel level_;
  std::string prefix_;
};

}  // namespace ncclwatch::watch
