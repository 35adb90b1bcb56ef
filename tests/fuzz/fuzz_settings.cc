// What users, administrators and command lines say. What must hold: no crash, one line for each complaint, whatever the
// bytes; and a value that is forbidden is never used.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/settings/excluded.h"
#include "watchdog/settings/redact.h"
#include "watchdog/settings/rules.h"
#include "watchdog/settings/settings.h"
#include "watchdog/settings/variables.h"

namespace {

using namespace ncclwatch::settings;

std::string value;
const char* ValueForAll(const char*) { return value.c_str(); }

void Require(bool holds) {
  if (!holds) std::abort();
}

void Check(const Rules& rules) {
  std::vector<Complaint> complaints;
  FromEnvironment(ValueForAll, rules, &complaints);
  for (const Complaint& complaint : complaints)
    Require(complaint.text.find('\n') == std::string::npos && complaint.text.size() < 4096);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  value = std::string(text.substr(0, text.find('\n')));
  Check(ParseRules(text, text));
  Rules closed;
  for (const Variable& variable : Variables()) Ban(variable.name, &closed);
  Check(closed);
  Require(FromEnvironment(ValueForAll, closed, nullptr).hook.empty());
  Require(FromEnvironment(ValueForAll, closed, nullptr).on_fault == OnFault::kReport);
  Require(Redacted(text, text).size() <= 4 * size + 16);
  CommandText(text, false, "x*");
  IsAmong(text, NamesOfProgram(text.substr(0, size / 2), text.substr(size / 2)));
  const char* entries[] = {value.c_str(), nullptr};
  for (const std::string& line : Misspelt(entries)) Require(line.find('\n') == std::string::npos);
  return 0;
}
