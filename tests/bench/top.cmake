add_executable(many_boxes ${CMAKE_CURRENT_LIST_DIR}/many_boxes.cc)
set_target_properties(many_boxes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bench)
target_link_libraries(many_boxes PRIVATE test_black_box ncclwatch_warnings)
