// What a process has open under a number: which file, on which file system. Asks no file system that may not answer.
#pragma once

#include <cstdint>
#include <string>

namespace ncclwatch::stacks {

struct OpenFile {
  enum class Kind : std::uint8_t { kNone, kFile, kPipe, kSocket, kOther };  // kPipe: named ones too
  Kind kind = Kind::kNone;
  std::string path;         // empty if it has none
  std::string file_system;  // "ext4", "fuse.gcsfuse", "nfs4"; empty if that is not known
  std::string mounted_on;
};
OpenFile OpenFileOf(int pid, int descriptor);

// "/data/17.bin (nfs4, mounted on /data)", "a pipe"; empty for kNone.
std::string Text(const OpenFile& file);

// Of the text of /proc/PID/mountinfo.
void FindMount(const std::string& mountinfo, int mount, OpenFile* file);

}  // namespace ncclwatch::stacks
