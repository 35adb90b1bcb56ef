# One sanitizer set for the whole build; the injected library is then preloaded after the sanitizer's own runtime.
set(NCCLWATCH_SANITIZE "" CACHE STRING "comma-separated sanitizers, empty for none")
option(NCCLWATCH_FUZZ "build the fuzzers (clang)" OFF)

if(NCCLWATCH_SANITIZE)
  # No vptr: that check opens a pipe to look at memory, and calls objects invalid in a process without descriptors.
  add_compile_options(-fsanitize=${NCCLWATCH_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${NCCLWATCH_SANITIZE})
endif()
if(NCCLWATCH_SANITIZE OR NCCLWATCH_FUZZ)
  # Abseil's hash tables have another layout under AddressSanitizer from 2023 on, and its archives are built without.
  add_compile_definitions(NDEBUG_SANITIZER)
endif()
