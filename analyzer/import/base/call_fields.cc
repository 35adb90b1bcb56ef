#include "analyzer/import/base/call_fields.h"

#include <absl/strings/str_split.h>

#include <string>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer::import {
namespace {

// Taken out of the object; null: it is not there.
nlohmann::json Extract(Field field, nlohmann::json* fields) {
  const auto found = fields->find(Described(field).name);
  if (found == fields->end()) return nullptr;
  nlohmann::json value = std::move(*found);
  fields->erase(found);
  return value;
}

nlohmann::json SecondsOf(const nlohmann::json& ns) {
  return ns.is_number_integer() ? nlohmann::json(static_cast<double>(ns.get<std::int64_t>()) / 1e9) : nullptr;
}

}  // namespace

nlohmann::json LineOf(nlohmann::json fields) {
  fields["duration_s"] = SecondsOf(Extract(Field::kDurationNs, &fields));
  fields["pending"] = Extract(Field::kPending, &fields) == 1;
  for (const Field list : {Field::kFlags, Field::kCommunicatorFlags})
    if (const nlohmann::json flags = Extract(list, &fields); flags.is_string())
      fields[Described(list).name] =
          std::vector<std::string>(absl::StrSplit(flags.get<std::string>(), ' ', absl::SkipEmpty()));
  if (const nlohmann::json kernel = Extract(Field::kKernelNs, &fields); kernel.is_number_integer())
    fields["kernel"] = {{"duration_s", SecondsOf(kernel)},
                        {"clock", Extract(Field::kKernelClock, &fields)},
                        {"algorithm", Extract(Field::kAlgorithm, &fields)},
                        {"protocol", Extract(Field::kProtocol, &fields)},
                        {"channels", Extract(Field::kChannels, &fields)}};
  return fields;
}

}  // namespace ncclwatch::analyzer::import
