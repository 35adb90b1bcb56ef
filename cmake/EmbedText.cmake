# embed_text(FROM TO HEADER FUNCTION): makes the source TO, in which FUNCTION of HEADER returns the text of the file FROM.
function(embed_text from to header function)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  add_custom_command(OUTPUT ${to}
    COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_CURRENT_SOURCE_DIR}/${from} -DTO=${to} -DHEADER=${header} -DFUNCTION=${function} -P ${script}
    DEPENDS ${from} ${script} VERBATIM)
endfunction()
