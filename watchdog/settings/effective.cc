// The settings that hold: what users say, within the administrator's rules.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/text/printable.h"
#include "watchdog/settings/environment.h"
#include "watchdog/settings/exchange_address.h"
#include "watchdog/settings/redact.h"
#include "watchdog/settings/rules.h"
#include "watchdog/settings/settings.h"
#include "watchdog/settings/variables.h"

namespace ncclwatch::settings {
namespace {

std::vector<Complaint> ComplaintsOf(const Rule& rule) {
  std::vector<Complaint> complaints;
  Parse(Environment({{rule.name, rule.value}}, &complaints));
  return complaints;
}

// A ceiling or a ban whose value is no value of its variable: nothing that users say about that variable is taken.
void CheckValues(Rules* rules) {
  std::vector<std::string> broken;
  const auto check = [&](const Rule& rule, const char* word) {
    if (rule.value.empty() || rule.value.find('*') != std::string::npos) return;
    for (const Complaint& complaint : ComplaintsOf(rule)) {
      rules->complaints.push_back(Joined({kRulesFile, ": ", word, " ", complaint.text}));
      broken.push_back(rule.name);
    }
  };
  for (const Rule& ceiling : rules->ceilings) check(ceiling, "max");
  for (const Rule& ban : rules->bans) check(ban, "forbid");
  for (const std::string& name : broken) {
    Ban(name, rules);
    std::erase_if(rules->ceilings, [&](const Rule& ceiling) { return ceiling.name == name; });
  }
}

Environment::Values Collect(Getenv getenv, const Rules& rules, std::vector<Complaint>* complaints) {
  Environment::Values values;
  for (const Variable& variable : Variables()) {
    const char* users = getenv(variable.name.data());
    const Ruled ruled = Within(rules, variable.name, users ? users : "");
    if (!ruled.value.empty()) values[variable.name] = ruled.value;
    if (!ruled.objection.empty())
      complaints->push_back({Joined({Shown(variable.name, users), ": ", ruled.objection, ", ",
                                     ruled.value.empty() ? "the default" : ruled.value, " is used"})});
  }
  return values;
}

template <typename T>
bool Lower(const T& most, T* value) {
  if (*value <= most) return false;
  *value = most;
  return true;
}

// Whether the ceiling of this variable changed the settings.
bool Clamp(std::string_view name, const Settings& most, Settings* settings) {
  if (name == "NCCLWATCH_COMMUNICATORS") return Lower(most.communicators, &settings->communicators);
  if (name == "NCCLWATCH_CRASH_STACK") return Lower(most.crash_stack, &settings->crash_stack);
  if (name == "NCCLWATCH_RING") return Lower(most.ring, &settings->ring);
  if (name == "NCCLWATCH_GPU") return Lower(most.gpu, &settings->gpu);
  if (name == "NCCLWATCH_LOG") return Lower(most.log, &settings->log);
  if (name == "NCCLWATCH_ON_FAULT") return Lower(most.on_fault, &settings->on_fault);
  if (name == "NCCLWATCH_HOOK_TIMEOUT") return Lower(most.hook_timeout_s, &settings->hook_timeout_s);
  if (name == "NCCLWATCH_TIMEOUT")
    return most.timeout_s && settings->timeout_s && Lower(*most.timeout_s, &*settings->timeout_s);
  if (name == "NCCLWATCH_TRACE_MAX") {
    if (settings->trace_most_bytes == 0) settings->trace_most_bytes = UINT64_MAX;  // no limit
    return Lower(most.trace_most_bytes, &settings->trace_most_bytes);
  }
  if (name != "NCCLWATCH_KEEP" || most.keep.all) return false;
  if (settings->keep.all) {
    settings->keep = most.keep;
    return true;
  }
  const bool older = Lower(most.keep.age_s, &settings->keep.age_s);
  return Lower(most.keep.bytes, &settings->keep.bytes) || older;
}

void ClampAll(const Rules& rules, Getenv getenv, Settings* settings, std::vector<Complaint>* complaints) {
  for (const Rule& ceiling : rules.ceilings) {
    const Settings most = Parse(Environment({{ceiling.name, ceiling.value}}, nullptr));
    const char* users = getenv(ceiling.name.c_str());
    if (Clamp(ceiling.name, most, settings) && users && *users)
      complaints->push_back(
          {Joined({Shown(ceiling.name, users), ": more than ", kRulesFile, " allows, ", ceiling.value, " is used"})});
  }
}

bool IsLeftAlone(const Rules& rules) {
  return rules.off || std::find(rules.users.begin(), rules.users.end(), std::to_string(getuid())) != rules.users.end();
}

// A whole machine that is switched off says nothing, but to who asks for the contrary.
Settings SwitchedOff(Getenv getenv, std::vector<Complaint>* complaints) {
  Settings settings;
  settings.on = false;
  const char* users = getenv("NCCLWATCH");
  if (complaints && users && *users && Parse(Environment({{"NCCLWATCH", users}}, nullptr)).on)
    complaints->push_back({Joined({Shown("NCCLWATCH", users), ": switched off by ", kRulesFile})});
  return settings;
}

}  // namespace

std::string Shown(std::string_view variable, std::string_view value) {
  std::string text = std::string(variable) + "=";
  if (variable == "NCCLWATCH_TOKEN") return text + "***";
  const std::string safe = Redacted(WithoutSecret(value), "");
  text += Printable(std::string_view(safe).substr(0, 80));
  if (safe.size() > 80) text += "...";
  return text;
}

Settings FromEnvironment(Getenv getenv, const Rules& given, std::vector<Complaint>* complaints) {
  if (IsLeftAlone(given)) return SwitchedOff(getenv, complaints);
  std::vector<Complaint> nobody;
  if (!complaints) complaints = &nobody;
  Rules rules = given;
  CheckValues(&rules);
  for (const std::string& complaint : rules.complaints) complaints->push_back({complaint});
  Settings settings = Parse(Environment(Collect(getenv, rules, complaints), complaints));
  ClampAll(rules, getenv, &settings, complaints);
  for (const std::string& program : rules.programs) settings.exclude += (settings.exclude.empty() ? "" : ",") + program;
  if (rules.needs_token_file && settings.token_file.empty() && settings.exchange != "off") {
    settings.exchange = "off";
    settings.why_no_exchange = kRulesFile;
    settings.why_no_exchange += " requires NCCLWATCH_TOKEN_FILE, and it is not set";
  }
  return settings;
}

Settings FromEnvironment(Getenv getenv, std::vector<Complaint>* complaints) {
  return FromEnvironment(getenv, RulesOfThisMachine(), complaints);
}

Settings OfThisProcess(std::vector<Complaint>* complaints) {
  return FromEnvironment([](const char* name) -> const char* { return std::getenv(name); }, complaints);
}

}  // namespace ncclwatch::settings
