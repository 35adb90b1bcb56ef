# Target log_search: RE2 and toml++, for `ncclwatch triage`.
find_library(RE2_LIBRARY NAMES libre2.a)
find_path(RE2_INCLUDE_DIR re2/filtered_re2.h)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT (RE2_LIBRARY AND RE2_INCLUDE_DIR))
  message(FATAL_ERROR "no libre2.a found: install libre2-dev, or let ./dev do it")
endif()
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  message(FATAL_ERROR "no toml++/toml.h found: install libtomlplusplus-dev, or let ./dev do it")
endif()
add_library(log_search INTERFACE)
target_include_directories(log_search SYSTEM INTERFACE ${RE2_INCLUDE_DIR} ${TOMLPLUSPLUS_INCLUDE_DIR})
target_link_libraries(log_search INTERFACE ${RE2_LIBRARY})
# Since 2023 RE2 stands on Abseil.
file(STRINGS ${RE2_INCLUDE_DIR}/re2/re2.h RE2_USES_ABSEIL REGEX "absl/")
if(RE2_USES_ABSEIL)
  target_link_libraries(log_search INTERFACE absl::absl_check absl::absl_log absl::fixed_array absl::flat_hash_map absl::flat_hash_set
                        absl::inlined_vector absl::str_format absl::strings absl::synchronization)
endif()
