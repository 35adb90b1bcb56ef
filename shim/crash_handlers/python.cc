#include "shim/crash_handlers/python.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "shim/exit_report/await_events.h"
#include "shim/exit_report/write.h"
#include "shim/python/lines.h"
#include "shim/resolve/preload.h"
#include "watchdog/cpython/origin.h"

namespace ncclwatch::shim {
namespace {

// Python's stable ABI (PEP 384), as far as it is used here; objects are opaque.
struct Object;
using MethodFunction = Object* (*)(Object* self, Object* arguments);
struct Method {
  const char* name;
  MethodFunction function;
  int flags;
  const char* doc;
};
constexpr int kNoArguments = 0x0004;  // METH_NOARGS

struct Interface {
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;  // null before 3.7
  int (*add_pending_call)(int (*)(void*), void*) = nullptr;
  Object* (*import)(const char*) = nullptr;
  Object* (*attribute)(Object*, const char*) = nullptr;
  Object* (*call)(Object*, ...) = nullptr;
  Object* (*make_function)(Method*, Object*, Object*) = nullptr;
  Object* (*system)(const char*) = nullptr;  // borrowed
  Object* (*type)(Object*) = nullptr;
  Object* (*text)(Object*) = nullptr;
  Object* (*encoded)(Object*, const char*, const char*) = nullptr;
  char* (*bytes)(Object*) = nullptr;
  long (*number)(Object*) = nullptr;
  void (*clear)() = nullptr;
  void (*keep)(Object*) = nullptr;
  void (*drop)(Object*) = nullptr;
  Object* none = nullptr;
};
Interface python;  // written before the interpreter is asked to call us

template <class Pointer>
bool Find(const char* name, Pointer* to) {
  *to = reinterpret_cast<Pointer>(resolve::Dlsym(RTLD_DEFAULT, name));
  return *to != nullptr;
}

bool Load(Interface* to) {
  if (!Find("Py_IsFinalizing", &to->is_finalizing)) Find("_Py_IsFinalizing", &to->is_finalizing);
  return Find("Py_AddPendingCall", &to->add_pending_call) && Find("Py_IsInitialized", &to->is_initialized) &&
         Find("PyImport_ImportModule", &to->import) && Find("PyObject_GetAttrString", &to->attribute) &&
         Find("PyObject_CallFunctionObjArgs", &to->call) && Find("PyCFunction_NewEx", &to->make_function) &&
         Find("PySys_GetObject", &to->system) && Find("PyObject_Type", &to->type) && Find("PyObject_Str", &to->text) &&
         Find("PyUnicode_AsEncodedString", &to->encoded) && Find("PyBytes_AsString", &to->bytes) &&
         Find("PyLong_AsLong", &to->number) && Find("PyErr_Clear", &to->clear) && Find("Py_IncRef", &to->keep) &&
         Find("Py_DecRef", &to->drop) && Find("_Py_NoneStruct", &to->none);
}

// A reference of ours; null where asking failed, which is nobody's error.
class Held {
 public:
  explicit Held(Object* object) : object_(object) {
    if (!object_) python.clear();
  }
  ~Held() {
    if (object_) python.drop(object_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Held(Held&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Object* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr && object_ != python.none; }
  Held operator[](const char* attribute) const {
    return Held(object_ ? python.attribute(object_, attribute) : nullptr);
  }
  long AsNumber() const {
    const long value = object_ ? python.number(object_) : -1;
    if (value == -1) python.clear();
    return value;
  }

 private:
  Object* object_;
};

Held Borrowed(Object* object) {
  if (object) python.keep(object);
  return Held(object);
}

// str(object), cut.
template <std::size_t size>
void TextOf(const Held& object, char (&to)[size]) {
  to[0] = 0;
  if (!object) return;
  const Held text(python.text(object.get()));
  const Held encoded(text ? python.encoded(text.get(), "utf-8", "replace") : nullptr);
  const char* bytes = encoded ? python.bytes(encoded.get()) : nullptr;
  if (bytes) std::snprintf(to, size, "%s", bytes);
}

// The innermost line of the application itself; of whomever else if there is none.
template <std::size_t size>
void PlaceOf(Held traceback, char (&place)[size]) {
  constexpr int kMost = 10000;
  bool own = false;
  place[0] = 0;
  for (int i = 0; traceback && i < kMost; ++i) {
    const Held code = traceback["tb_frame"]["f_code"];
    static char file[512], function[64];  // in the main thread, with the GIL
    TextOf(code["co_filename"], file);
    TextOf(code["co_name"], function);
    const bool application = cpython::OriginOf(file) == cpython::Origin::kProgram;
    if (application || !own) {
      // The end of a long path says more than its beginning.
      const std::size_t bytes = std::strlen(file);
      constexpr std::size_t kMostOfPath = 128;
      const char* const shown = bytes > kMostOfPath ? file + (bytes - kMostOfPath) : file;
      std::snprintf(place, size, "%s:%ld in %s", shown, traceback["tb_lineno"].AsNumber(), function);
    }
    own = own || application;
    traceback = traceback["tb_next"];
  }
}

void Say(Box& box) {
  Held value = Borrowed(python.system("last_exc"));  // 3.12
  if (!value) value = Borrowed(python.system("last_value"));
  if (!value) return;
  const Held type(python.type(value.get()));
  static char name[96], module[64], full[128], message[1536], place[248];
  TextOf(type["__qualname__"], name);
  TextOf(type["__module__"], module);
  if (std::strcmp(name, "SystemExit") == 0) return;
  if (module[0] == 0 || std::strcmp(module, "builtins") == 0)
    std::snprintf(full, sizeof full, "%s", name);
  else
    std::snprintf(full, sizeof full, "%.31s.%s", module, name);
  TextOf(value, message);
  PlaceOf(value["__traceback__"], place);
  const std::uint64_t number = box.words->exceptions_seen.fetch_add(1, std::memory_order_relaxed);
  WriteEntry(box.words->exceptions[number % format::kExceptions], number, [&](format::Exception& entry) {
    Put(entry.language, static_cast<std::uint32_t>(format::Language::kPython));
    Put(entry.thread, static_cast<std::uint32_t>(syscall(SYS_gettid)));
    PutText(entry.type, full);
    PutRedacted(entry.message, message, box.secret_names);
    PutText(entry.place, place);
  });
}

Object* AtExit(Object*, Object*) {
  static Box* said = nullptr;  // twice where a fork child inherits the one and asks for another
  Box* const box = BoxToSpeakIn();
  if (box && box != said) Say(*box);
  if (box && box->python_lines) box->python_lines->LeaveOtherThreads();
  said = box;
  AwaitEvents();
  python.keep(python.none);
  return python.none;
}

// In the main thread, between two of its instructions, with the GIL.
int Register(void*) {
  static Method method{"ncclwatch_last_words", AtExit, kNoArguments, nullptr};
  const Held module(python.import("atexit"));
  const Held enlist = module["register"];
  const Held function(python.make_function(&method, nullptr, nullptr));
  if (enlist && function) Held(python.call(enlist.get(), function.get(), nullptr));
  return 0;
}

}  // namespace

void WatchPython() {
  static constinit std::atomic<std::int32_t> asked_by{0};
  const std::int32_t self = getpid();
  if (asked_by.exchange(self) == self) return;
  Interface found;
  if (!Load(&found) || !found.is_initialized() || (found.is_finalizing && found.is_finalizing())) return;
  python = found;
  // Full, or too early: then exceptions are not told.
  if (found.add_pending_call(Register, nullptr) != 0) return;
}

bool PythonIsWatched() { return python.is_initialized != nullptr; }

}  // namespace ncclwatch::shim
