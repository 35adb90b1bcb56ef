# Target elfutils_dw: elfutils' libdw, which reads DWARF, statically. Only its reading of files is linked, not libdwfl, which
# may ask a network for debug information.
find_library(LIBDW_LIBRARY NAMES libdw.a)
find_library(LIBELF_LIBRARY NAMES libelf.a)
find_path(LIBDW_INCLUDE_DIR elfutils/libdw.h)
find_library(ZLIB_LIBRARY NAMES libz.a)
find_library(BZ2_LIBRARY NAMES libbz2.a)    # of compressed files, as is liblzma
find_library(LZMA_LIBRARY NAMES liblzma.a)
find_library(ZSTD_LIBRARY NAMES libzstd.a)  # libelf's, since 0.190
if(NOT (LIBDW_LIBRARY AND LIBELF_LIBRARY AND LIBDW_INCLUDE_DIR AND ZLIB_LIBRARY AND BZ2_LIBRARY AND LZMA_LIBRARY))
  message(FATAL_ERROR "no libdw.a, libelf.a, their headers, libz.a, libbz2.a or liblzma.a found: install "
                      "libdw-dev, zlib1g-dev, libbz2-dev and liblzma-dev, or let ./dev do it")
endif()
set(archives ${LIBDW_LIBRARY} ${LIBELF_LIBRARY} ${ZLIB_LIBRARY} ${BZ2_LIBRARY} ${LZMA_LIBRARY})
if(ZSTD_LIBRARY)
  list(APPEND archives ${ZSTD_LIBRARY})
endif()

# Debian 13's archives lack functions of theirs (eu_tsearch and others): there the shared library it is, and the command that is
# built there runs where libdw1 is installed.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${LIBDW_INCLUDE_DIR})
set(CMAKE_REQUIRED_LIBRARIES ${archives})
check_cxx_source_compiles("#include <elfutils/libdw.h>
                           int main() { return dwarf_getsrc_die(nullptr, 0) == nullptr && dwarf_begin(0, DWARF_C_READ) == nullptr; }"
                          LIBDW_ARCHIVES_ARE_WHOLE)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT LIBDW_ARCHIVES_ARE_WHOLE)
  message(STATUS "libdw.a does not link: the command is linked to the shared libdw")
  find_library(LIBDW_SHARED_LIBRARY NAMES libdw.so REQUIRED)
  find_library(LIBELF_SHARED_LIBRARY NAMES libelf.so REQUIRED)
  set(archives ${LIBDW_SHARED_LIBRARY} ${LIBELF_SHARED_LIBRARY})
endif()

add_library(elfutils_dw INTERFACE)
target_include_directories(elfutils_dw SYSTEM INTERFACE ${LIBDW_INCLUDE_DIR})
target_link_libraries(elfutils_dw INTERFACE ${archives})
