#include "shim/mpi/core/real.h"

#include <dlfcn.h>

#include <cstring>
#include <string_view>

#include "shim/base/keep_errno.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<void*> reals[2][std::size(functions::kRowOf)] = {};

namespace {

using functions::Function;

void* NextInOrder(const char* name) {
  void* found = resolve::Next(name);
  return found && !resolve::IsOurs(found) ? found : nullptr;
}

// As under Python, whose extensions bring the library where RTLD_NEXT does not see it. Never taken away again: what is
// found in it is kept.
void* Loaded() {
  static constinit std::atomic<void*> known{nullptr};
  if (void* handle = known.load(std::memory_order_acquire)) return handle;
  resolve::Module module;
  if (!resolve::ModuleNamed(kLibraryName, nullptr, &module) &&
      !resolve::ModuleNamed(kOtherLibraryName, nullptr, &module))
    return nullptr;
  void* handle = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
  known.store(handle, std::memory_order_release);
  return handle;
}

std::string_view NameOfFile(const char* path) {
  const std::string_view whole(path);
  return whole.substr(whole.rfind('/') + 1);
}

}  // namespace

void* FindRealNamed(const char* name) {
  void* real = NextInOrder(name);
  if (!real)
    if (void* handle = Loaded()) real = resolve::Dlsym(handle, name);
  return real && !resolve::IsOurs(real) ? real : nullptr;
}

void* FindReal(Function function, Name name) {
  const KeepErrno keep;
  const functions::FunctionInfo* info = functions::Find(function);
  char text[64] = "P";
  if (!info || info->name.size() + 2 > sizeof text) return nullptr;
  info->name.copy(text + (name == Name::kProfiled ? 1 : 0), info->name.size());
  void* const real = FindRealNamed(text);
  if (!real) return nullptr;
  reals[static_cast<std::uint8_t>(name)][static_cast<std::uint32_t>(function)].store(real, std::memory_order_relaxed);
  return real;
}

void* FindGlobal(const char* name, std::atomic<void*>* known) {
  const KeepErrno keep;
  // In load order: a program may hold the object itself (a copy relocation), and then the library uses that one.
  void* there = resolve::Dlsym(RTLD_DEFAULT, name);
  if (!there)
    if (void* handle = Loaded()) there = resolve::Dlsym(handle, name);
  known->store(there, std::memory_order_relaxed);
  return there;
}

int ClassOf(int error) {
  int of = error;
  auto* ask = NCCLWATCH_REAL(MPI_Error_class);
  return ask && ask(error, &of) == MPI_SUCCESS ? of : error;
}

int NoSuchFunction(Function function) {
  static constinit std::atomic<bool> said{false};
  if (!said.exchange(true))
    log::host::Error("{} was called, but no MPI library was found", functions::FullName(function));
  return MPI_ERR_OTHER;
}

namespace {

// What was answered for a return address: a tool or ROMIO asks at every call. The address, the number of modules that
// were unloaded by then, as another one may lie there since, and the answer.
constexpr std::size_t kAnswers = 256;
constexpr int kCountBits = 15;
constinit std::atomic<std::uint64_t> answers[kAnswers] = {};

std::uint64_t Answer(std::uint64_t site, bool own) {
  const std::uint64_t unloaded = resolve::Unloaded() & ((std::uint64_t{1} << kCountBits) - 1);
  return site << (kCountBits + 1) | unloaded << 1 | (own ? 1 : 0);
}

}  // namespace

bool IsMpisFile(std::string_view file) {
  return file.starts_with("libmpi") || file.starts_with("mca_") || file.starts_with("libopen-") ||
         file.starts_with("libmca_") || file.starts_with("libompitrace");
}

bool IsMpisOwn(std::uint64_t site) {
  // A function of MPI that ends in a jump to another one: MPICH's MPI_Keyval_create does.
  if (resolve::IsOurs(reinterpret_cast<const void*>(site))) return true;
  const KeepErrno keep;
  std::atomic<std::uint64_t>& known = answers[(site ^ site >> 8) % kAnswers];
  const std::uint64_t answer = Answer(site, false), there = known.load(std::memory_order_relaxed);
  if ((there | 1) == (answer | 1)) return there != answer;
  resolve::Module module;
  if (!resolve::ModuleOf(reinterpret_cast<const void*>(site), &module)) return false;
  const bool own = IsMpisFile(NameOfFile(module.path));
  known.store(answer | (own ? 1 : 0), std::memory_order_relaxed);
  return own;
}

bool LibraryText(char (&text)[kLibraryText]) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING + 4096] = {};  // another MPI's may be longer than ours
  int length = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Get_library_version);
  if (!ask || ask(whole, &length) != MPI_SUCCESS) return false;
  // "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release date: ..."
  whole[std::strcspn(whole, "\n,")] = '\0';
  std::string_view rest(whole);
  int used = 0;
  constexpr std::string_view kNoise = "Version:";
  while (!rest.empty() && used < kLibraryText - 1) {
    if (rest.starts_with(kNoise)) {
      rest.remove_prefix(kNoise.size() + (rest.size() > kNoise.size() ? 1 : 0));
      continue;
    }
    text[used++] = rest.front();
    rest.remove_prefix(1);
  }
  text[used] = '\0';
  return used > 0;
}

constinit std::atomic<Abi> abi{Abi::kNotAsked};

bool AskAbi() {
  char text[kLibraryText];
  const bool known = LibraryText(text);
  const bool open_mpi = known && std::strncmp(text, "Open MPI", 8) == 0;
#ifdef OPEN_MPI
  const bool ours = open_mpi;
#else
  const bool ours = known && !open_mpi;
#endif
  if (abi.exchange(ours ? Abi::kOurs : Abi::kOther, std::memory_order_relaxed) == Abi::kOther || ours) return ours;
  log::host::Error("not watching MPI: this library is for {}, and the program runs on {}", kAbiName,
                   known ? text : "an MPI that does not give its name");
  return false;
}

}  // namespace ncclwatch::shim::mpi
