#include "shim/crash_handlers/terminate.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

#include "shim/exit_report/write.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim {
namespace {

// Functions of the application's libstdc++: the one inside this library knows nothing of the application's exceptions.
// Layouts and types are the common ABI's, equal in both.
using SetTerminate = std::terminate_handler (*)(std::terminate_handler);
using CurrentType = const std::type_info* (*)();
using CurrentException = std::exception_ptr (*)();

std::terminate_handler before = nullptr;
CurrentType current_type = nullptr;
CurrentException current_exception = nullptr;

// The thrown object as a std::exception, if it is one: asked of the type itself, as a catch clause does.
const std::exception* AsStandard(const std::type_info& type) {
  // Never destroyed: the reference is the process's last worry, and giving it back is the other library's business.
  alignas(std::exception_ptr) static unsigned char place[sizeof(std::exception_ptr)];
  static_assert(sizeof(std::exception_ptr) == sizeof(void*));
  new (place) std::exception_ptr(current_exception());
  void* object = nullptr;
  std::memcpy(&object, place, sizeof object);
  if (!object || !typeid(std::exception).__do_catch(&type, &object, 1)) return nullptr;
  return static_cast<const std::exception*>(object);
}

void Say() {
  Box* const box = BoxToSpeakIn();
  if (!box) return;
  const std::type_info* const type = current_type();
  const std::exception* const standard = type ? AsStandard(*type) : nullptr;
  const char* const what = standard ? standard->what() : nullptr;
  const std::uint64_t number = box->words->exceptions_seen.fetch_add(1, std::memory_order_relaxed);
  WriteEntry(box->words->exceptions[number % format::kExceptions], number, [&](format::Exception& entry) {
    Put(entry.language, static_cast<std::uint32_t>(format::Language::kCpp));
    Put(entry.thread, static_cast<std::uint32_t>(syscall(SYS_gettid)));
    PutText(entry.type, type ? type->name() : "");
    PutRedacted(entry.message, what ? what : "", box->secret_names);
    PutText(entry.place, "");
  });
}

[[noreturn]] void OnTerminate() {
  // what() is the application's, and may end here again.
  static constinit std::atomic<bool> said{false};
  if (!said.exchange(true)) Say();
  if (before) before();
  std::abort();
}

}  // namespace

void CatchTerminate() {
  static constinit std::atomic<bool> caught{false};
  resolve::Module module;
  if (caught.load(std::memory_order_relaxed) || !resolve::ModuleNamed("libstdc++.so", nullptr, &module)) return;
  void* const library = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
  if (!library || caught.exchange(true)) return;
  const auto find = [library](const char* name) { return resolve::Dlsym(library, name); };
  const auto set = reinterpret_cast<SetTerminate>(find("_ZSt13set_terminatePFvvE"));
  current_type = reinterpret_cast<CurrentType>(find("__cxa_current_exception_type"));
  current_exception = reinterpret_cast<CurrentException>(find("_ZSt17current_exceptionv"));
  if (set && current_type && current_exception) before = set(OnTerminate);
}

}  // namespace ncclwatch::shim
