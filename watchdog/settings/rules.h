// What the administrator of a machine allows: the lines of /etc/ncclwatch.conf.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "watchdog/settings/settings.h"

namespace ncclwatch::settings {

inline constexpr char kRulesFile[] = "/etc/ncclwatch.conf";

struct Rule {
  std::string name;   // of a variable
  std::string value;  // of a ban: empty means whatever users say, else * stands for any characters
};

struct Rules {
  bool off = false;               // nothing is watched on this machine
  bool needs_token_file = false;  // nodes exchange nothing unless the secret comes from a file
  std::vector<Rule> defaults;     // hold where users say nothing
  std::vector<Rule> ceilings;
  std::vector<Rule> bans;
  std::vector<Rule> roots;              // values have to be paths below
  std::vector<std::string> programs;    // that are left alone
  std::vector<std::string> users;       // likewise: numbers
  std::vector<std::string> complaints;  // one line each about a line that is not understood
};

// Lines: `NAME=value`, `max NAME=value`, `forbid NAME[=value]`, `require NCCLWATCH_TOKEN_FILE`, `root NAME=/folder`,
// `exclude PROGRAM`, `exclude-user NAME|UID`, `off`; from # on they are comments. A line that is not understood is
// complained of, and what users say about a variable that it names is not taken. `passwd` (the text of /etc/passwd)
// gives users' names their numbers.
Rules ParseRules(std::string_view text, std::string_view passwd);

// What holds of a variable: the user's value within the rules, else the administrator's, else the one that does least.
// Empty: the built-in default. Refers to `users` or to the rules.
struct Ruled {
  std::string_view value;
  std::string objection;  // why it is not what the user said; one phrase
};
Ruled Within(const Rules& rules, std::string_view name, std::string_view users);

// No value of a user for this variable is taken.
void Ban(std::string_view name, Rules* rules);

// Those of this machine, read once for the process. By system calls that are no points at which the application's
// thread may be cancelled.
const Rules& RulesOfThisMachine();

// What a variable says within the rules of this machine; null or empty if nothing. Lives as long as the environment.
const char* Allowed(Getenv getenv, const char* name) noexcept;

}  // namespace ncclwatch::settings
