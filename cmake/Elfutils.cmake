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
add_library(elfutils_dw INTERFACE)
target_include_directories(elfutils_dw SYSTEM INTERFACE ${LIBDW_INCLUDE_DIR})
target_link_libraries(elfutils_dw INTERFACE ${LIBDW_LIBRARY} ${LIBELF_LIBRARY} ${ZLIB_LIBRARY} ${BZ2_LIBRARY}
                                             ${LZMA_LIBRARY})
if(ZSTD_LIBRARY)
  target_link_libraries(elfutils_dw INTERFACE ${ZSTD_LIBRARY})
endif()
