# Target nongnu_libunwind: libunwind's remote interface, statically. The command needs no libunwind where it runs, and
# libunwind.a, whose _Unwind_* would take the place of the compiler's own, stays out.
find_library(LIBUNWIND_LIBRARY NAMES libunwind-${CMAKE_SYSTEM_PROCESSOR}.a)
find_path(LIBUNWIND_INCLUDE_DIR libunwind-${CMAKE_SYSTEM_PROCESSOR}.h)
find_library(LZMA_LIBRARY NAMES liblzma.a)  # libunwind's: it can read compressed symbols, which nothing here asks for
find_library(ZLIB_LIBRARY NAMES libz.a)     # likewise, since 1.7
if(NOT (LIBUNWIND_LIBRARY AND LIBUNWIND_INCLUDE_DIR AND LZMA_LIBRARY))
  message(FATAL_ERROR "no libunwind-${CMAKE_SYSTEM_PROCESSOR}.a, its headers or liblzma.a found: install libunwind-dev, "
                      "or let ./dev do it")
endif()
add_library(nongnu_libunwind INTERFACE)
target_include_directories(nongnu_libunwind SYSTEM INTERFACE ${LIBUNWIND_INCLUDE_DIR})
target_link_libraries(nongnu_libunwind INTERFACE ${LIBUNWIND_LIBRARY} ${LZMA_LIBRARY})
if(ZLIB_LIBRARY)
  target_link_libraries(nongnu_libunwind INTERFACE ${ZLIB_LIBRARY})
endif()

# Most of Debian's archives are not position independent: programs that link one cannot be, either.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${LIBUNWIND_INCLUDE_DIR})
set(CMAKE_REQUIRED_LIBRARIES ${LIBUNWIND_LIBRARY} ${LZMA_LIBRARY} $<$<BOOL:${ZLIB_LIBRARY}>:${ZLIB_LIBRARY}>)
check_cxx_source_compiles("#include <libunwind.h>
                           extern \"C\" int UNW_ARCH_OBJ(setcontext)(const ucontext_t*) { return 0; }
                           int main() { return unw_step(nullptr); }" LIBUNWIND_IS_POSITION_INDEPENDENT)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT LIBUNWIND_IS_POSITION_INDEPENDENT)
  target_link_options(nongnu_libunwind INTERFACE -no-pie)
endif()
