#include "shim/mpi/core/misuse.h"

#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "shim/base/keep_errno.h"
#include "shim/exit_report/write.h"
#include "shim/mpi/core/error_handlers.h"
#include "shim/resolve/modules.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::mpi {
namespace {

constexpr std::uint32_t kSaid = 3;                 // lines on stderr
constexpr std::uintptr_t kLowestPie = 0x10000000;  // a program below it was linked to its addresses
constexpr std::size_t kNameBytes = 600;

// A thread that is killed inside leaves the others without reports, not waiting.
constinit std::atomic_flag writing = ATOMIC_FLAG_INIT;
class Turn {
 public:
  Turn() {
    for (int i = 0; i < 1000 && !held_; ++i) {
      held_ = !writing.test_and_set(std::memory_order_acquire);
      if (!held_) sched_yield();
    }
  }
  ~Turn() {
    if (held_) writing.clear(std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool held() const { return held_; }

 private:
  bool held_ = false;
};

// "/path/of/module+0x1234", the instruction before a return address; empty if it lies in no module.
void NameOf(const Box& box, std::uint64_t site, char (&name)[kNameBytes]) {
  name[0] = '\0';
  if (const format::PythonSite* line = box.python_lines ? box.python_lines->At(site) : nullptr)
    return format::PythonSiteName(*line, name, sizeof name);
  resolve::Module module;
  if (site == 0 || !resolve::ModuleOf(reinterpret_cast<const void*>(site - 1), &module)) return;
  char program[sizeof module.path] = {};
  if (module.path[0] == '\0' && readlink("/proc/self/exe", program, sizeof program - 1) <= 0) return;
  const std::uintptr_t base = module.begin < kLowestPie ? 0 : module.begin;
  std::snprintf(name, sizeof name, "%s+0x%llx", module.path[0] ? module.path : program,
                static_cast<unsigned long long>(site - 1 - base));
}

std::uint32_t AddName(Box& box, std::uint64_t site) {
  char name[kNameBytes];
  NameOf(box, site, name);
  return name[0] ? AddString(box, name) : 0;
}

const char* FileOf(const char* name) {
  const char* const slash = std::strrchr(name, '/');
  return slash ? slash + 1 : name;
}

void SayIt(const Call& call, const Charge& charge) {
  char text[200];
  format::MisuseText(charge.wrong, charge.value, charge.limit, text, sizeof text);
  char site[kNameBytes], made[kNameBytes];
  NameOf(call.box, call.site, site);
  NameOf(call.box, charge.made_at, made);
  log::host::Error("{}, called from {}: {}{}", functions::FullName(call.function), FileOf(site), text,
                   made[0] ? fmt::format(" ({})", FileOf(made)) : "");
}

format::Misuse* SameAs(Box& box, const Call& call, const Charge& charge, std::uint64_t seen) {
  for (std::uint64_t i = 0; i < seen && i < format::kMisuses; ++i) {
    format::Misuse& entry = box.words->misuses[i];
    if (entry.wrong == static_cast<std::uint32_t>(charge.wrong) && entry.site == call.site &&
        entry.made_at == charge.made_at && entry.function == static_cast<std::uint32_t>(call.function))
      return &entry;
  }
  return nullptr;
}

}  // namespace

void Report(Call& call, const Charge& charge) {
  Box& box = call.box;
  if (!box.Watching() || call.misuse != 0) return;  // the first thing that is wrong with a call will do
  const KeepErrno keep;
  const Turn turn;
  if (!turn.held()) return;
  const std::uint64_t number = box.words->misuses_seen.load(std::memory_order_relaxed);
  if (format::Misuse* known = SameAs(box, call, charge, number)) {
    known->times.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (number < format::kMisuses) {
    const std::uint32_t site_name = AddName(box, call.site);
    const std::uint32_t made_at_name = AddName(box, charge.made_at);
    const bool tells_program = !charge.ends_process && TellsProgram(call);
    WriteEntry(box.words->misuses[number], number, [&](format::Misuse& entry) {
      Put(entry.site, call.site);
      Put(entry.made_at, charge.made_at);
      entry.value.store(charge.value, std::memory_order_relaxed);
      Put(entry.limit, charge.limit);
      entry.times.store(1, std::memory_order_relaxed);
      Put(entry.wrong, static_cast<std::uint32_t>(charge.wrong));
      Put(entry.function, static_cast<std::uint32_t>(call.function));
      Put(entry.made_by, static_cast<std::uint32_t>(charge.made_by));
      Put(entry.communicator, call.index);
      Put(entry.generation, call.generation);
      Put(entry.thread, call.thread.id);
      entry.result.store(format::kNoResult, std::memory_order_relaxed);
      Put(entry.site_name, site_name);
      Put(entry.made_at_name, made_at_name);
      Put(entry.tells_program, static_cast<std::uint32_t>(tells_program));
    });
    call.misuse = static_cast<std::uint8_t>(number + 1);
  }
  box.words->misuses_seen.store(number + 1, std::memory_order_release);
  const format::MisuseInfo* info = format::Find(charge.wrong);
  if (number < kSaid && info && info->kind != format::MisuseKind::kResourceLeak) SayIt(call, charge);
}

void NoteOutcome(const Call& call, int result) {
  call.box.words->misuses[call.misuse - 1].result.store(result, std::memory_order_release);
}

void TakeBack(Box& box, Wrong wrong) {
  const std::uint64_t seen = box.words->misuses_seen.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < seen && i < format::kMisuses; ++i)
    if (box.words->misuses[i].wrong == static_cast<std::uint32_t>(wrong))
      Put(box.words->misuses[i].wrong, static_cast<std::uint32_t>(Wrong::kNothing));
}

}  // namespace ncclwatch::shim::mpi
