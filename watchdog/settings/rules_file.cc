// The one place where /etc/ncclwatch.conf is read. No variable names another file: who could set it could leave the
// rules.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include "watchdog/settings/plain_file.h"
#include "watchdog/settings/rules.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::size_t kMostBytes = 256 << 10;
constexpr std::size_t kMostUsers = 4 << 20;  // bytes of /etc/passwd

Rules Ignored(const std::string& why) {
  Rules rules;
  rules.complaints.push_back(Joined({kRulesFile, " is ignored: ", why}));
  return rules;
}

Rules ReadRules() {
  const PlainFile file = ReadPlain(kRulesFile, kMostBytes);
  if (file.error == ENOENT || file.error == ENOTDIR) return {};
  if (file.error == ELOOP) return Ignored("it is a link");
  if (file.error == EFBIG) return Ignored("it is too long");
  if (file.error != 0) return Ignored(std::strerror(file.error));
  if (!file.regular) return Ignored("it is no regular file");
  if (file.owner != 0) return Ignored("it belongs to user " + std::to_string(file.owner) + ", not to root");
  if ((file.mode & 022) != 0) return Ignored("others than root may write it");
  const bool names_users = file.text.find("exclude-user") != std::string::npos;
  return ParseRules(file.text, names_users ? ReadPlain("/etc/passwd", kMostUsers, true).text : "");
}

// Never freed: the process may end at any time, in any thread.
std::atomic<const Rules*> rules_of_this_machine{nullptr};

}  // namespace

const Rules& RulesOfThisMachine() {
  const Rules* known = rules_of_this_machine.load(std::memory_order_acquire);
  if (known) return *known;
  auto read = std::make_unique<const Rules>(ReadRules());
  if (rules_of_this_machine.compare_exchange_strong(known, read.get(), std::memory_order_acq_rel))
    return *read.release();
  return *known;  // another thread was first
}

const char* Allowed(Getenv getenv, const char* name) noexcept {
  try {
    const char* users = getenv(name);
    // Whatever it refers to ends with a zero byte: the user's text, a whole string of the rules, a literal.
    return Within(RulesOfThisMachine(), name, users ? users : "").value.data();
  } catch (const std::exception&) {  // no memory
    return nullptr;
  }
}

}  // namespace ncclwatch::settings
