# Where the headers of the MPIs lie, one folder each; an MPI that is not installed gets no library. Debian and Fedora
# install them side by side, each below a folder of its own.
set(MPIS openmpi mpich)
find_path(MPI_INCLUDE_openmpi mpi.h NO_DEFAULT_PATH
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include /usr/include/openmpi-${CMAKE_SYSTEM_PROCESSOR}
        $ENV{OPENMPI_HOME}/include)
find_path(MPI_INCLUDE_mpich mpi.h NO_DEFAULT_PATH
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich /usr/include/mpich-${CMAKE_SYSTEM_PROCESSOR}
        $ENV{MPICH_HOME}/include)

# The text of all that mpi.h of an MPI declares.
function(read_mpi_headers mpi text)
  set(all "")
  foreach(name mpi.h mpi_proto.h mpio.h)
    if(EXISTS ${MPI_INCLUDE_${mpi}}/${name})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MPI_INCLUDE_${mpi}}/${name})
      file(READ ${MPI_INCLUDE_${mpi}}/${name} one)
      string(APPEND all "${one}")
    endif()
  endforeach()
  set(${text} "${all}" PARENT_SCOPE)
endfunction()
