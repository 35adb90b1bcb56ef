// Whose a box is, from a copy of its header: what commands ask of boxes that they follow while others write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

struct Glance {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;
  std::int32_t rank = -1;
  std::uint64_t pid_namespace = 0;
  std::string boot_id, host;
  bool watching = false;
};
// None: it cannot be read, or is no box.
std::optional<Glance> GlanceAt(const descriptors::Directory& directory, const std::string& name);

}  // namespace ncclwatch::reader
