# Target curses_static: ncurses for wide characters, and its terminfo library. Static, since no release of Debian or RHEL
# has the same libtinfo as all others; terminals are looked up in the machine's own /etc, /lib and /usr/share/terminfo.
find_library(NCURSESW_LIBRARY NAMES libncursesw.a)
find_library(TINFO_LIBRARY NAMES libtinfo.a)
find_path(CURSES_INCLUDE curses.h)
if(NOT (NCURSESW_LIBRARY AND TINFO_LIBRARY AND CURSES_INCLUDE))
  message(FATAL_ERROR "no libncursesw.a, libtinfo.a or curses.h found: install libncurses-dev, or let ./dev do it")
endif()
add_library(curses_static INTERFACE)
target_include_directories(curses_static SYSTEM INTERFACE ${CURSES_INCLUDE})
target_link_libraries(curses_static INTERFACE ${NCURSESW_LIBRARY} ${TINFO_LIBRARY})
