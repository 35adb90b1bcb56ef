// What every part of one watchdog knows.
#pragma once

#include <string>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::watch {

struct Context {
  format::Header* own = nullptr;  // this process's box
  std::string own_path;
  descriptors::Directory directory;  // the run directory, kept open: nothing in it is reached by its path
  settings::Settings settings;
  std::string command;  // of this installation: act::FindCommand
};

}  // namespace ncclwatch::watch
