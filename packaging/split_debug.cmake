# Run by `cmake --install`: takes the debug information out of every program and library that was installed. The demo's
# example keeps its own: verdicts about it show what they show of a user's program.
set(root $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
find_program(OBJCOPY NAMES ${NCCLWATCH_OBJCOPY} objcopy REQUIRED)
find_program(READELF readelf REQUIRED)
file(GLOB files ${root}/bin/ncclwatch ${root}/lib/ncclwatch/*.so ${root}/lib/ncclwatch/demo/*.so.*)
foreach(file IN LISTS files)
  execute_process(COMMAND ${READELF} -n ${file} OUTPUT_VARIABLE notes ERROR_QUIET)
  if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
    message(FATAL_ERROR "${file} has no build id: its debug information could not be found again")
  endif()
  set(debug ${root}/lib/debug/.build-id/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug)
  get_filename_component(folder ${debug} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${OBJCOPY} --only-keep-debug --compress-debug-sections ${file} ${debug}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD ${debug} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND ${OBJCOPY} --strip-unneeded ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${OBJCOPY} --compress-debug-sections ${root}/lib/ncclwatch/demo/demo_job
                COMMAND_ERROR_IS_FATAL ANY)
