// All of ncclwatch-profiler.so: room for a plugin of each version, which the core fills in (offer.cc). Its SONAME is
// the name that NCCL opens if the user has set no plugin. Its file name is another one, which neither ldconfig nor a
// search for that name finds.
namespace {

struct Plugin {
  void* words[6];
};

}  // namespace

extern "C" {
// gdb 13 ends with an internal error where a library has no code.
[[gnu::visibility("default")]] void ncclwatch_profiler() {}
[[gnu::visibility("default")]] Plugin ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4,
    ncclProfiler_v5, ncclProfiler_v6;
}
