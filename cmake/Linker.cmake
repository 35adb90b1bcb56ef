# A fast linker, where there is one: a test links a hundred programs with the same libraries.
find_program(NCCLWATCH_LINKER NAMES ld.mold mold ld.lld)
if(NCCLWATCH_LINKER MATCHES "mold")
  add_link_options(-fuse-ld=mold)
elseif(NCCLWATCH_LINKER)
  add_link_options(-fuse-ld=lld)
endif()
