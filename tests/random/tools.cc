#include "tools.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace random_program {

void Die(const std::string& why) {
  std::fprintf(stderr, "random_program: %s\n", why.c_str());
  _exit(99);
}

// The text of a result is asked for only where there is one to say.
void Check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    Die(std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr));
}
void Check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) Die(std::string(what) + ": " + cudaGetErrorString(result));
}
std::uint64_t Scramble(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ull;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44dull;
  return x ^ (x >> 33);
}

ncclUniqueId SharedId(const std::string& name, bool make) {
  const std::string path = std::string(std::getenv("HOST_ID_DIR")) + "/" + name;
  ncclUniqueId id;
  if (make) {
    NCCL(ncclGetUniqueId(&id));
    FILE* file = std::fopen((path + ".new").c_str(), "w");
    if (!file || std::fwrite(&id, sizeof id, 1, file) != 1 || std::fclose(file) != 0) Die("cannot write " + path);
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) Die("cannot rename to " + path);
    return id;
  }
  FILE* file = nullptr;
  while (!(file = std::fopen(path.c_str(), "r"))) usleep(1000);
  if (std::fread(&id, sizeof id, 1, file) != 1) Die("cannot read " + path);
  std::fclose(file);
  return id;
}

void Child(int how) {
  const pid_t child = how == 2 ? vfork() : fork();
  if (child == 0) {
    if (how == 1 || how == 2) execl("/bin/true", "true", static_cast<char*>(nullptr));
    if (how == 3) {
      int version = 0;
      ncclGetVersion(&version);
      _exit(version > 0 ? 0 : 98);
    }
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) Die("a child did not end well");
}

}  // namespace random_program
