# A job on disk is judged as it is in memory, and generate_job writes the truth beside it.
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${GENERATE} --out ${FOLDER} --topology pipeline --fault dead_rank --ranks 16 --seed 3
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${FOLDER}/truth.json truth)
string(JSON kind GET "${truth}" answers 0 kind)
execute_process(COMMAND ${MATRIX} timed --dir ${FOLDER} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said MATCHES "^ +16 .* ${kind}\n$")
  message(FATAL_ERROR "of a job with ${kind} it says: ${said}")
endif()
