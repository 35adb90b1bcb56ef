// Opens modules that are linked to copies of libnccl of their own, and has each use the one that it reaches, twice.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i < argc; ++i) {
      void* const plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (!plugin) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 99;
      }
      const auto use = reinterpret_cast<int (*)(int)>(dlsym(plugin, "plugin_use"));
      std::printf("plugin %d reaches %d\n", i, use ? use(round * 10 + i) : -1);
    }
  }
  return 0;
}
