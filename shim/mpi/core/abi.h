// The mpi.h that this copy of the folder is compiled against: Open MPI's handles are pointers, MPICH's are ints. Both
// are told by their bits.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace ncclwatch::shim::mpi {

// An object of the MPI library, found in the process: most that preload this library have none.
void* FindGlobal(const char* name, std::atomic<void*>* known);
inline void* Global(const char* name, std::atomic<void*>* known) {
  void* const there = known->load(std::memory_order_relaxed);
  return there ? there : FindGlobal(name, known);
}

#ifdef OPEN_MPI
// MPI_COMM_WORLD and all other constants are addresses in libmpi.so, which a reference would make every program need.
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)                            \
  (static_cast<type>([]() -> void* {                                    \
    static constinit std::atomic<void*> place_of_##global{nullptr};     \
    return ::ncclwatch::shim::mpi::Global(#global, &place_of_##global); \
  }()))
#endif

template <class Handle>
std::uint64_t Bits(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uint64_t>(handle);
  else
    return static_cast<std::uint32_t>(handle);
}

#ifdef OPEN_MPI
inline constexpr char kLibraryName[] = "libmpi.so";
inline constexpr char kOtherLibraryName[] = "libmpich.so";
inline constexpr char kAbiName[] = "Open MPI";
#else
inline constexpr char kLibraryName[] = "libmpich.so";
inline constexpr char kOtherLibraryName[] = "libmpi.so";
inline constexpr char kAbiName[] = "MPICH";
#endif

}  // namespace ncclwatch::shim::mpi
