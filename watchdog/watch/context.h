// What every part of one watchdog knows.
#pragma once

#include <string>

#include "ncclwatch/format/black_box.h"
#include "watchdog/settings/settings.h"
#include "watchdog/watch/log.h"

namespace ncclwatch::watch {

struct Context {
  format::Header* own = nullptr;  // this process's box
  std::string own_path;
  std::string directory;
  settings::Settings settings;
  Log log;
  std::string command;  // of this installation: act::FindCommand
};

}  // namespace ncclwatch::watch
