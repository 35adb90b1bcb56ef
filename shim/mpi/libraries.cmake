# libncclwatch-openmpi.so and libncclwatch-mpich.so, each with its core: the same sources compiled against each mpi.h, with a wrapper for
# every row of mpi.def that it declares.
include(MpiHeaders)
set(MPI_TABLE ${CMAKE_SOURCE_DIR}/include/ncclwatch/functions/mpi.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MPI_TABLE})
file(STRINGS ${MPI_TABLE} mpi_rows REGEX "^HOOK\\(")

foreach(mpi IN LISTS MPIS)
  if(NOT MPI_INCLUDE_${mpi} OR CMAKE_CROSSCOMPILING)
    message(STATUS "no libncclwatch-${mpi}.so: its mpi.h is not found")
    continue()
  endif()
  read_mpi_headers(${mpi} declared)
  set(here "")
  set(entries ${wrapped} "exit:kWaits")
  if(mpi STREQUAL "mpich")
    list(APPEND entries "MPIR_Err_return_comm:kWaits" "MPIR_Err_return_win:kWaits")
  endif()
  foreach(row IN LISTS mpi_rows)
    string(REGEX MATCH "[0-9]+, (MPI_[A-Za-z0-9_]+)" ignored "${row}")
    set(name ${CMAKE_MATCH_1})
    string(FIND "${declared}" "P${name}(" at)
    if(at GREATER_EQUAL 0)
      string(APPEND here "${row}\n")
      list(APPEND entries "${name}:kOpens" "P${name}:kOpens")
    endif()
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${mpi})
  file(CONFIGURE OUTPUT ${folder}/mpi_here.def CONTENT "${here}" @ONLY)
  write_entries(${folder} ${entries})

  add_library(shim_${mpi} OBJECT
    mpi/record/collective_arguments.cc
    mpi/objects/attached.cc
    mpi/requests/buffers.cc
    mpi/objects/checks.cc
    mpi/communicators/communicators.cc
    mpi/requests/completion.cc
    mpi/objects/datatypes.cc
    mpi/core/error_handlers.cc
    mpi/core/fortran_site.cc
    mpi/wrappers/fatal_mpich.cc
    mpi/communicators/files.cc
    mpi/wrappers/finalize_report.cc
    mpi/requests/footprint.cc
    mpi/objects/groups.cc
    mpi/wrappers/hooks.cc
    mpi/core/misuse.cc
    mpi/record/neighbours.cc
    mpi/objects/objects.cc
    mpi/requests/origins.cc
    mpi/core/own_memory.cc
    mpi/record/parts.cc
    mpi/record/persistent.cc
    mpi/core/phase.cc
    mpi/core/real.cc
    mpi/record/record.cc
    mpi/wrappers/refused.cc
    mpi/requests/requests.cc
    mpi/communicators/stores.cc
    mpi/core/threads.cc
    mpi/communicators/topologies.cc
    mpi/communicators/windows.cc)
  target_include_directories(shim_${mpi} PRIVATE ${folder})
  target_include_directories(shim_${mpi} SYSTEM PRIVATE ${MPI_INCLUDE_${mpi}})
  target_compile_definitions(shim_${mpi} PRIVATE
    OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX
    OMPI_OMIT_MPI1_COMPAT_DECLS=0 OMPI_REMOVED_USE_STATIC_ASSERT=0)  # what MPI-3 removed is still called
  # The wrappers' frames tell inner calls (base/thread.h); the rest saves what keeping them costs.
  set_source_files_properties(mpi/wrappers/hooks.cc PROPERTIES COMPILE_OPTIONS -fno-omit-frame-pointer)
  if(NCCLWATCH_SANITIZE MATCHES "undefined")
    # Where GCC is to look for null in any way, the address of a table's row is no constant (GCC bug 71962).
    target_compile_options(shim_${mpi} PRIVATE -fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_link_libraries(shim_${mpi} PRIVATE shim_parts ncclwatch_warnings)
  add_injected_library(ncclwatch-${mpi} ${folder} shim_${mpi})
endforeach()
