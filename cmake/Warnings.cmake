add_library(ncclwatch_warnings INTERFACE)
target_compile_options(ncclwatch_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Wcast-align -Wundef)
