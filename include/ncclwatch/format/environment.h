// What a process says of the environment that it had when its first communicator was made: lines "name=value" in the
// strings of its box. Names in lower case are versions ("driver", "cuda", "mpi"), all others variables, in the order of
// their names. A value that is longer than kMostValue, or has line ends, is cut there and followed by "#" and a hash of
// all of it. The last line is "..." where there was no room for all variables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace ncclwatch::format {

inline constexpr std::size_t kMostEnvironment = 4000;  // bytes
inline constexpr std::size_t kMostValue = 160;
inline constexpr char kEnvironmentCut[] = "...";

namespace environment {

inline constexpr std::string_view kBeginnings[] = {
    "NCCL_",  "TORCH_NCCL_", "UCX_",          "FI_",   "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_coll",
    "MPICH_", "MPIR_CVAR_",  "I_MPI_FABRICS", "GLOO_", "NVSHMEM_",     "MASTER_",      "CUDA_DEVICE_"};
inline constexpr std::string_view kNames[] = {
    "LD_LIBRARY_PATH",         "LD_PRELOAD",           "OMP_NUM_THREADS", "WORLD_SIZE",
    "PYTORCH_CUDA_ALLOC_CONF", "CUDA_LAUNCH_BLOCKING", "PYTHONPATH"};
// One for each rank, by their meaning.
inline constexpr std::string_view kOwn[] = {"NCCL_HOSTID", "NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE",
                                            "NCCL_GRAPH_DUMP_FILE", "NCCL_PROFILER_PLUGIN"};
inline constexpr std::string_view kOfHosts[] = {
    "IFNAME",     "_HCA",    "_DEVICES", "GID_INDEX",  "_IFACE",     "_DOMAIN",      "include",      "_NIC_",
    "TOPO_FILE",  "_PATH",   "_DIR",     "PYTHONPATH", "LD_PRELOAD", "_FILE",        "NUM_THREADS",  "_DEBUG",
    "_CONF_FILE", "_SUBNET", "MASTER_",  "_TEMP_",     "_LOG_",      "CUDA_DEVICE_", "NCCL_COMM_ID", "_NODE"};

template <std::size_t N>
bool HoldsAny(std::string_view name, const std::string_view (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

template <std::size_t N>
bool IsOneOf(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace environment

// Variables that NCCL, MPI and their networks read, and all ranks of a job should have alike. Left out: those that have
// another value in each rank by their meaning. The writer leaves out secrets too (watchdog/settings/redact.h).
inline bool ShouldBeAlike(std::string_view variable) {
  namespace names = environment;
  if (names::IsOneOf(variable, names::kOwn)) return false;
  return names::IsOneOf(variable, names::kNames) ||
         std::any_of(std::begin(names::kBeginnings), std::end(names::kBeginnings),
                     [&](std::string_view beginning) { return variable.starts_with(beginning); });
}

// ... but hosts may differ in it for good reasons: interfaces and adapters, paths, what is logged.
inline bool MayDifferByHost(std::string_view variable) {
  return environment::HoldsAny(variable, environment::kOfHosts);
}

}  // namespace ncclwatch::format
