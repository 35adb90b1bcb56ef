// Communicators that the program names (ncclwatch/annotate.h).
#include "host.h"
#include "ncclwatch/annotate.h"

int main() {
  int nothing = 0;
  ncclwatch_label(&nothing, "no communicator");
  ncclwatch_label(nullptr, "no communicator");
  ncclComm_t data = host::Alone(), tensor = host::Alone(), pipeline = host::Alone();
  ncclwatch_label(data, "data parallel");
  ncclwatch_label(tensor, std::string(100, 'x').c_str());
  ncclwatch_label(pipeline, "old");
  ncclwatch_label(pipeline, nullptr);
  host::AllReduce(data, 1);
  host::AllReduce(tensor, 2);
  host::AllReduce(pipeline, 3);
  for (ncclComm_t communicator : {data, tensor, pipeline}) NCCL(ncclCommDestroy(communicator));
}
