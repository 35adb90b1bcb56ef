// The process groups that one trace names, in one of several ways, and who is in them.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/import/base/trace.h"
#include "analyzer/import/kineto/events.h"

namespace ncclwatch::analyzer::import::kineto {

class Groups {
 public:
  // Numbers of groups, as calls have them until Resolve().
  int Of(const Event& event);
  // Where a trace tells no group: all of the job. Of another backend it is another one.
  int World(std::string_view backend);

  // Puts them into the trace and the calls on them. `told`: what the trace says of them as a whole.
  void Resolve(const std::vector<GroupConfig>& told, Trace* trace, const std::vector<std::vector<TraceCall>*>& calls);

 private:
  struct Told {
    std::string name, description, ranks;
    std::int64_t start = -1, stride = -1, size = -1;
  };
  static TraceGroup Resolved(const Told& named, const std::vector<GroupConfig>& told, int world_size);

  std::vector<Told> named_;
  absl::flat_hash_map<std::string, int> number_of_;
};

}  // namespace ncclwatch::analyzer::import::kineto
