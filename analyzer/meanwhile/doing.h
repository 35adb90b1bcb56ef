// What one look at a thread says it is doing: by its frames, else by the system call that it is in.
#pragma once

#include <string>

#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/process/open_file.h"
#include "core/reader/beside/meanwhile.h"

namespace ncclwatch::meanwhile {

// What the thread was seen in. `call` is the name of the system call, empty for none.
struct Seen {
  const stacks::Thread* thread = nullptr;
  bool running = false;
  std::string call;
  int descriptor = -1;    // of a call on one
  stacks::OpenFile file;  // what that is
  std::string path;       // of a call on a path
};

// Does the call take a descriptor, or a path, as its first or second argument?
enum class Argument : std::uint8_t { kNone, kDescriptor, kFirstPath, kSecondPath };
Argument ArgumentOf(const std::string& call);

struct Activity {
  reader::Doing doing = reader::Doing::kOther;
  std::string words;  // "in read of /data/17.bin (nfs4, mounted on /data)"
};
Activity ActivityOf(const Seen& seen);

}  // namespace ncclwatch::meanwhile
