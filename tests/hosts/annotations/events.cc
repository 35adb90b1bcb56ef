// What happens, told by the program (ncclwatch/annotate.h): well-formed details, details that are none, or very many.
//
//   events [flood N]
#include <cstdlib>
#include <string>

#include "ncclwatch/annotate.h"

int main(int argc, char** argv) {
  const int many = argc == 3 ? std::atoi(argv[2]) : 0;
  for (int i = 0; i < many; ++i) ncclwatch_event("flood", ("{\"number\": " + std::to_string(i) + "}").c_str());
  ncclwatch_event("before", nullptr);
  ncclwatch_step_begin(7);
  ncclwatch_event("checkpoint", "{ \"path\":\n \"/a \\\"b\\\"\", \"sizes\": [1, 2.5e3, -0, null, true] }\n");
  if (many == 0) {
    ncclwatch_event("broken", "{\"a\": ");
    ncclwatch_event("\x1b[2J", "\"\x1b[2J\"");
    ncclwatch_event("deep", std::string(500, '[').append(500, ']').c_str());
    ncclwatch_event("bytes", "\"\xff\xfe\"");
    ncclwatch_event(std::string(100, 't').c_str(), ("\"" + std::string(5000, 'x') + "\"").c_str());
    ncclwatch_event(nullptr, "{}");
  }
  ncclwatch_step_end(7);
  ncclwatch_event("last", "{}");
}
