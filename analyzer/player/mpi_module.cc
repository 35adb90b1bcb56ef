#include "analyzer/player/mpi_module.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <iterator>

#include "analyzer/run/own_files.h"

namespace ncclwatch::analyzer {
namespace {

struct Abi {
  const char* name;
  const char* marker;  // a variable that its launcher sets
  const char* libraries[3];
};
constexpr Abi kAbis[] = {{"openmpi", "OMPI_COMM_WORLD_RANK", {"libmpi.so.40", "libmpi_abi.so.40", "libmpi.so.20"}},
                         {"mpich", "PMI_RANK", {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"}}};

bool OpenLibrary(const Abi& abi) {
  for (const char* library : abi.libraries)
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL)) return true;
  return false;
}

// By the launcher; where that tells nothing (srun), the first that is there.
const Abi* OpenMpi() {
  for (const Abi& abi : kAbis)
    if (std::getenv(abi.marker)) return OpenLibrary(abi) ? &abi : nullptr;
  for (const Abi& abi : kAbis)
    if (OpenLibrary(abi)) return &abi;
  return nullptr;
}

}  // namespace

absl::Status PlayMpi(player::Script* script, player::Listener* listener) {
  const Abi* const abi = OpenMpi();
  if (!abi) return absl::NotFoundError("no library of MPI is found (libmpi.so.40, libmpi.so.12)");
  const std::string name = fmt::format("libncclwatch-replay-{}.so", abi->name);
  const std::string installed = "lib/ncclwatch/" + name, built = "lib/" + name;
  const auto path = FindOwnFile({installed.c_str(), built.c_str()});
  if (!path.ok()) return path.status();
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) return absl::UnavailableError(dlerror());
  const auto play = reinterpret_cast<player::PlayMpi>(dlsym(module, "ncclwatch_play_mpi"));
  if (!play) return absl::UnavailableError(*path + " is not this version's");
  const std::string problem = play(script, listener);
  return problem.empty() ? absl::OkStatus() : absl::DataLossError(problem);
}

}  // namespace ncclwatch::analyzer
