// Whose a box is, from a copy of its header: what commands ask of boxes that they follow while others write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/reader/image.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

class MappedBox;

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

// A copy of an entry of a box's table. None: nobody's, just being given to another communicator, or damaged.
std::optional<Communicator> CommunicatorNow(const MappedBox& box, std::uint32_t index);

}  // namespace ncclwatch::reader
