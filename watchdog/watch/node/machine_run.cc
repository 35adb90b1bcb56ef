#include "watchdog/watch/node/machine_run.h"

#include <utility>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/stacks.h"
#include "watchdog/act/thread.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kFirst_ns = 3 * kSecond, kMachineEvery_ns = 60 * kSecond, kWrong_ns = 15 * kSecond;
constexpr std::int64_t kSoon_ns = 4 * kSecond;  // after something has gone wrong

}  // namespace

MachineRun::MachineRun(const Context& context, const std::vector<std::string>* environment)
    : context_(context), environment_(environment), shared_(std::make_shared<Shared>()) {}

void MachineRun::LookIfDue(std::int64_t now_ns, bool wrong) {
  if (began_ns_ == 0) began_ns_ = now_ns;
  if (!std::exchange(wrong_, wrong) && wrong) soon_ = true;
  const std::int64_t since_ns = now_ns - looked_ns_;
  const bool due = looked_ns_ == 0 ? wrong || now_ns - began_ns_ >= kFirst_ns
                                   : since_ns >= (soon_   ? kSoon_ns
                                                  : wrong ? kWrong_ns
                                                          : kMachineEvery_ns);
  if (!due) return;
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::exchange(shared_->busy, true)) return;
  }
  soon_ = false;
  looked_ns_ = now_ns;
  Begin();
}

void MachineRun::Begin() {
  act::MachineRequest request{context_.command, context_.directory, reader::MachineFile(context_.own->identity.host),
                              *environment_};
  const bool started = act::StartThread(act::kStacksThread, [shared = shared_, request = std::move(request)] {
    const std::string complaint = act::LookAtMachine(request);
    if (!complaint.empty()) log::Debug("the machine was not looked at: {}", complaint);
    std::optional<reader::MachineSample> look = reader::ReadMachine(request.directory, request.file);
    const std::lock_guard lock(shared->mutex);
    if (look) shared->news = std::move(look);
    shared->busy = false;
  });
  if (started) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->busy = false;
}

std::optional<reader::MachineSample> MachineRun::TakeNews() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->news, std::nullopt);
}

}  // namespace ncclwatch::watch
