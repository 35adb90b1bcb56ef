# Sources of a target are compiled together, folder by folder, and small folders with the next ones. Reading headers and
# making the same templates again costs four fifths of a build. So a name in an unnamed namespace means one thing in its
# folder and in the folders beside it; the compiler says where it does not. The preset `dev`, which lint reads, compiles
# each source alone, so that each includes what it uses.
option(NCCLWATCH_UNITY "compile sources of a folder together" ON)
set(NCCLWATCH_UNITED 20)  # sources at most; a larger folder stays whole

# The folder of a source: "." is that of the target.
function(ncclwatch_room_of path out)
  cmake_path(GET path PARENT_PATH room)
  if(room STREQUAL "")
    set(room ".")
  endif()
  set(${out} ${room} PARENT_SCOPE)
endfunction()

# Sets UNITY_GROUP of these sources, which are relative to the folder of their target.
function(ncclwatch_unite_sources target folder)
  foreach(source IN LISTS ARGN)
    ncclwatch_room_of(${source} room)
    list(APPEND rooms ${room})
    list(APPEND sources_of_${room} ${source})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  list(SORT rooms)
  set(group "")
  set(united 0)
  foreach(room IN LISTS rooms)
    list(LENGTH sources_of_${room} count)
    math(EXPR united "${united} + ${count}")
    if(group STREQUAL "" OR united GREATER NCCLWATCH_UNITED)
      string(MAKE_C_IDENTIFIER "room_${room}" group)
      set(united ${count})
    endif()
    foreach(source IN LISTS sources_of_${room})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
    endforeach()
  endforeach()
endfunction()

# ncclwatch_unite(<folder>): every target in it and below.
function(ncclwatch_unite folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(INTERFACE_LIBRARY|UTILITY)$")
      continue()
    endif()
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "[.]cc$")
    list(LENGTH sources count)
    if(count GREATER 1)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
      # GCC takes a source that is included for a header, in which such types would be wrong.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
      ncclwatch_unite_sources(${target} ${folder} ${sources})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    ncclwatch_unite(${below})
  endforeach()
endfunction()
