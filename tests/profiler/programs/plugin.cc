// A profiler plugin of a user's, of one version of the interface. Asks for what NCCL's Inspector asks for, and leaves
// in $PLUGIN_LOG.<pid> how many events of which type it was told of, and what a plugin would not survive: an event that
// is stopped twice, a handle or a parent that it has never given away.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "shim/profiler/interface.h"

using namespace ncclwatch::shim::profiler;

namespace {

struct Event {
  unsigned type;
  bool stopped = false;
};

std::mutex mutex;
std::set<const void*> known;
std::map<unsigned, long> starts, states;
std::set<std::string> wrong;
int communicators = 0;
int context_of_all = 0;

void Say() {
  const char* log = std::getenv("PLUGIN_LOG");
  if (!log) return;
  std::FILE* file = std::fopen((std::string(log) + "." + std::to_string(getpid())).c_str(), "w");
  if (!file) return;
  std::fprintf(file, "{\"wrong\": [");
  for (const char* separator = ""; const std::string& text : wrong) {
    std::fprintf(file, "%s\"%s\"", separator, text.c_str());
    separator = ", ";
  }
  std::fprintf(file, "], \"starts\": {");
  for (const char* separator = ""; const auto& [type, count] : starts) {
    std::fprintf(file, "%s\"%u\": %ld", separator, type, count);
    separator = ", ";
  }
  std::fprintf(file, "}, \"states\": %ld}\n", states[kKernelChannelStop]);
  std::fclose(file);
}

int Begin(void** context, int* mask) {
  const std::lock_guard lock(mutex);
  ++communicators;
  *context = &context_of_all;
  *mask = kCollective | kKernelChannel;
  return 0;
}

template <class E>
int Start(void* context, void** handle, E* event) {
  const std::lock_guard lock(mutex);
  if (context != &context_of_all) wrong.insert("a context");
  if (event->parent && !known.contains(event->parent)) wrong.insert("a parent");
  if (event->type == kKernelChannel && !event->parent) wrong.insert("a channel without a parent");
  ++starts[static_cast<unsigned>(event->type)];
  *handle = new Event{static_cast<unsigned>(event->type)};
  known.insert(*handle);
  return 0;
}

int Stop(void* handle) {
  const std::lock_guard lock(mutex);
  if (!known.contains(handle))
    wrong.insert("a handle");
  else if (std::exchange(static_cast<Event*>(handle)->stopped, true))
    wrong.insert("a second stop");
  return 0;
}

int Record(void* handle, std::int32_t state, void*) {
  const std::lock_guard lock(mutex);
  if (!known.contains(handle)) wrong.insert("a handle");
  ++states[static_cast<unsigned>(state)];
  return 0;
}

int Finalize(void*) {
  const std::lock_guard lock(mutex);
  if (--communicators == 0) Say();
  return 0;
}

}  // namespace

#define SHOWN __attribute__((visibility("default")))
#define NAME(version) NAME_OF(version)
#define NAME_OF(version) ncclProfiler_v##version

extern "C" {
#if VERSION <= 3
#if VERSION == 1
using Described = Event1;
#elif VERSION == 2
using Described = Event2;
#else
using Described = Event3;
#endif
extern SHOWN Plugin1<Described> NAME(VERSION);
Plugin1<Described> NAME(VERSION) = {"user's", Begin, {Start<Described>, Stop, Record, Finalize}};
#elif VERSION == 4
extern SHOWN Plugin4 NAME(VERSION);
Plugin4 NAME(VERSION) = {
    "user's",
    [](void** context, int* mask, const char*, std::uint64_t, int, int, int, Logger) { return Begin(context, mask); },
    {Start<Event4>, Stop, Record, Finalize}};
#else
extern SHOWN Plugin5 NAME(VERSION);
Plugin5 NAME(VERSION) = {
    "user's",
    [](void** context, std::uint64_t, int* mask, const char*, int, int, int, Logger) { return Begin(context, mask); },
    {Start<Event5>, Stop, Record, Finalize}};
#endif
}
