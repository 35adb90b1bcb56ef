# Abseil, for the programs: the command and the tests' tools. Link ncclwatch_abseil, which brings fmt. Nothing that is
# injected into other people's processes may use it: Debian's archives are not built for shared objects.
find_package(absl REQUIRED)

# Debian's package names the shared libraries. The archives lie beside them: a program of ours brings no library along.
get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS imported_targets)
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR type STREQUAL "INTERFACE_LIBRARY")
    continue()
  endif()
  get_target_property(file ${target} LOCATION)
  string(REGEX REPLACE "[.]so[.0-9]*$" ".a" archive "${file}")
  if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "${archive} is missing: ${target} would be a shared library")
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archive})
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive})
  endforeach()
endforeach()

add_library(ncclwatch_abseil INTERFACE)
target_link_libraries(ncclwatch_abseil INTERFACE
  absl::cleanup absl::flat_hash_map absl::flat_hash_set absl::statusor absl::strings absl::time ncclwatch_fmt)
