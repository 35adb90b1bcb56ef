// __libc_start_main got a new version in glibc 2.34: since then it runs the program's constructors itself where the
// start-up code gives it none. The old version, which every glibc has, expects a function that runs them.
#define NCCLWATCH_HIDDEN extern "C" __attribute__((visibility("hidden")))

using Constructor = void (*)(int, char**, char**);
using Main = int (*)(int, char**, char**);

extern "C" {
// The linker's, and the start-up files'.
extern __attribute__((visibility("hidden"))) const Constructor __preinit_array_start[], __preinit_array_end[];
extern __attribute__((visibility("hidden"))) const Constructor __init_array_start[], __init_array_end[];
__attribute__((visibility("hidden"))) void _init();
int ncclwatch_old_libc_start_main(Main main, int argc, char** argv, Constructor init, void (*fini)(),
                                  void (*loader_fini)(), void* stack_end);
}
#if defined(__x86_64__)
__asm__(".symver ncclwatch_old_libc_start_main, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver ncclwatch_old_libc_start_main, __libc_start_main@GLIBC_2.17");
#endif

static void RunConstructors(int argc, char** argv, char** environment) {
  for (const Constructor* each = __preinit_array_start; each != __preinit_array_end; ++each)
    (*each)(argc, argv, environment);
  _init();
  for (const Constructor* each = __init_array_start; each != __init_array_end; ++each) (*each)(argc, argv, environment);
}

// The loader runs the destructors (loader_fini).
NCCLWATCH_HIDDEN int __libc_start_main(Main main, int argc, char** argv, Constructor, void (*)(), void (*loader_fini)(),
                                       void* stack_end) {
  return ncclwatch_old_libc_start_main(main, argc, argv, RunConstructors, nullptr, loader_fini, stack_end);
}
