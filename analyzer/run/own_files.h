// The files of this installation, found from where the command lies: bin/ncclwatch with lib/ncclwatch/ beside bin/, or
// a build folder.
#pragma once

#include <absl/status/statusor.h>

#include <initializer_list>
#include <string>

namespace ncclwatch::analyzer {

absl::StatusOr<std::string> OwnCommand();  // this program's own path, links resolved

// The first of these that can be read. The paths are relative to the folder that holds bin/. NotFound names the first
// one.
absl::StatusOr<std::string> FindOwnFile(std::initializer_list<const char*> paths);

}  // namespace ncclwatch::analyzer
