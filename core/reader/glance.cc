#include "core/reader/glance.h"

#include "core/reader/file.h"
#include "core/reader/layout.h"
#include "core/reader/load.h"
#include "ncclwatch/format/black_box.h"

namespace ncclwatch::reader {

std::optional<Glance> GlanceAt(const descriptors::Directory& directory, const std::string& name) {
  const File file(directory, name);
  if (!file.reason().empty()) return std::nullopt;
  alignas(format::Header) char copy[sizeof(format::Header)] = {};
  const std::size_t got = file.ReadAt(0, copy, sizeof(copy));
  if (!CheckHeader(copy, got, file.bytes()).empty()) return std::nullopt;
  const auto& header = *reinterpret_cast<const format::Header*>(copy);
  const format::Identity& identity = header.identity;
  return Glance{identity.pid,
                identity.start_time,
                identity.rank,
                identity.pid_namespace,
                Text(identity.boot_id),
                Text(identity.host),
                header.watching.load(std::memory_order_relaxed) != 0};
}

}  // namespace ncclwatch::reader
