# OTF2's own library writes and reads OTF2 (libopen-trace-format2-dev of Debian), statically. Optional: without it `export`
# has no otf2, and `import` reads none.
find_library(OTF2_LIBRARY NAMES libopen-trace-format2.a libotf2.a)
find_path(OTF2_INCLUDE_DIR otf2/otf2.h)
if(OTF2_LIBRARY AND OTF2_INCLUDE_DIR)
  add_library(otf2_static INTERFACE)
  target_include_directories(otf2_static SYSTEM INTERFACE ${OTF2_INCLUDE_DIR})
  target_link_libraries(otf2_static INTERFACE ${OTF2_LIBRARY} m)
else()
  message(STATUS "no OTF2 (libopen-trace-format2-dev): OTF2 is neither written nor read")
endif()
