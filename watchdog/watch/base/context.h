// What every part of one watchdog knows.
#pragma once

#include <fmt/format.h>

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

// Of this job, below NCCLWATCH_OUT; empty without it.
inline std::string OutFolder(const Context& context) {
  const format::Identity& identity = context.own->identity;
  if (context.settings.out.empty()) return {};
  const std::string attempt = identity.attempt > 0 ? fmt::format("/attempt-{}", identity.attempt) : "";
  return context.settings.out + "/" + identity.job + attempt;
}

}  // namespace ncclwatch::watch
