# A fast linker, where there is one: a test links a hundred programs with the same libraries.
find_program(NCCLWATCH_LINKER NAMES ld.mold mold ld.lld)
if(NCCLWATCH_LINKER MATCHES "mold")
  # Code in pages of its own: without it mold 1.10.1 lets the part that becomes read-only begin a page too early where the
  # code ends a few bytes before a page does, and the program does not start ("cannot apply additional memory protection").
  add_link_options(-fuse-ld=mold -Wl,-z,separate-code)
elseif(NCCLWATCH_LINKER)
  add_link_options(-fuse-ld=lld)
endif()
# What nobody calls does not get into a program: each function is a section of its own.
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)
