#include "watchdog/settings/rules.h"

#include <algorithm>
#include <utility>

#include "core/text/pattern.h"
#include "watchdog/settings/variables.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::size_t kMostComplaints = 16;

const Rule* Find(const std::vector<Rule>& rules, std::string_view name) {
  const Rule* found = nullptr;  // the last one counts
  for (const Rule& rule : rules)
    if (rule.name == name) found = &rule;
  return found;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A # within a word is no comment: http://host/#part.
std::string_view WithoutComment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  return line;
}

// A user's number by the text of /etc/passwd: `name:x:number:...`.
std::string NumberOf(std::string_view user, std::string_view passwd) {
  while (!passwd.empty()) {
    std::string_view line = passwd.substr(0, passwd.find('\n'));
    passwd.remove_prefix(std::min(passwd.size(), line.size() + 1));
    if (!line.starts_with(user) || line.size() <= user.size() || line[user.size()] != ':') continue;
    line.remove_prefix(user.size() + 1);
    line.remove_prefix(std::min(line.size(), line.find(':') + 1));
    const std::string_view number = line.substr(0, line.find(':'));
    if (IsNumber(number)) return std::string(number);
  }
  return "";
}

class Parser {
 public:
  Parser(std::string_view passwd, Rules* rules) : passwd_(passwd), rules_(rules) {}

  void Line(std::string_view text) {
    ++number_;
    const std::string_view line = Trimmed(WithoutComment(text));
    if (line.empty()) return;
    const std::string why = Understand(line);
    if (!why.empty()) Complain(line, why);
  }

 private:
  // Empty, or why it is not understood.
  std::string Understand(std::string_view line) {
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    const std::string_view rest = Trimmed(line.substr(word.size()));
    if (line == "off") {
      rules_->off = true;
      return "";
    }
    if (word.starts_with("NCCLWATCH")) return Default(line);
    if (word == "max") return Ceiling(rest);
    if (word == "forbid") return Prohibition(rest);
    if (word == "root") return Root(rest);
    if (word == "require") return Requirement(rest);
    if (word == "exclude") return Listed(rest, &rules_->programs);
    if (word == "exclude-user") return User(rest);
    return "accepted: NAME=value, max NAME=value, forbid NAME[=value], require NCCLWATCH_TOKEN_FILE, root "
           "NAME=/folder, "
           "exclude PROGRAM, exclude-user USER, off";
  }

  static std::pair<const Variable*, std::string_view> Assignment(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string_view name = Trimmed(text.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? "" : Trimmed(text.substr(equals + 1));
    return {FindVariable(name), value};
  }

  std::string Default(std::string_view text) {
    const auto [variable, value] = Assignment(text);
    if (!variable) return "there is no such variable";
    if (variable->of_one_job) return "this is of one job, not of all";
    if (value.empty()) return "a value is missing";
    rules_->defaults.push_back({std::string(variable->name), std::string(value)});
    return "";
  }

  std::string Ceiling(std::string_view text) {
    const auto [variable, value] = Assignment(text);
    if (!variable) return "there is no such variable";
    if (!variable->ordered) return "this has no more and no less";
    if (value.empty()) return "a value is missing";
    rules_->ceilings.push_back({std::string(variable->name), std::string(value)});
    return "";
  }

  std::string Prohibition(std::string_view text) {
    const auto [variable, value] = Assignment(text);
    if (!variable) return "there is no such variable";
    if (variable->name == "NCCLWATCH_DIR") return "ncclwatch run itself hands this to the job";
    if (text.find('=') != std::string_view::npos && value.empty()) return "a value is missing";
    rules_->bans.push_back({std::string(variable->name), std::string(value)});
    return "";
  }

  std::string Root(std::string_view text) {
    const auto [variable, value] = Assignment(text);
    if (!variable || (variable->name != "NCCLWATCH_OUT" && variable->name != "NCCLWATCH_NCCL"))
      return "only NCCLWATCH_OUT and NCCLWATCH_NCCL have a root";
    if (!value.starts_with('/')) return "a root begins with /";
    rules_->roots.push_back({std::string(variable->name), std::string(value)});
    return "";
  }

  std::string Requirement(std::string_view text) {
    if (text != "NCCLWATCH_TOKEN_FILE") return "only NCCLWATCH_TOKEN_FILE can be required";
    rules_->needs_token_file = true;
    return "";
  }

  static std::string Listed(std::string_view text, std::vector<std::string>* list) {
    if (text.empty()) return "a name is missing";
    while (!text.empty())
      if (const std::string_view name = TakeElement(&text); !name.empty()) list->emplace_back(name);
    return "";
  }

  std::string User(std::string_view text) {
    std::vector<std::string> names;
    if (std::string why = Listed(text, &names); !why.empty()) return why;
    std::string unknown;
    for (const std::string& name : names) {
      const std::string number = IsNumber(name) ? name : NumberOf(name, passwd_);
      if (number.empty())
        unknown = name + " is not in /etc/passwd: other users are named by their numbers";
      else
        rules_->users.push_back(number);
    }
    return unknown;
  }

  void Complain(std::string_view line, const std::string& why) {
    // The safe reading: whatever the line was to say about a variable, users do not decide it.
    for (std::size_t at = 0; (at = line.find("NCCLWATCH", at)) != std::string_view::npos;) {
      const std::size_t end = line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", at);
      const std::string_view name = line.substr(at, end == std::string_view::npos ? end : end - at);
      if (const std::string_view meant = FindVariable(name) ? name : Nearest(name); !meant.empty()) Ban(meant, rules_);
      at += name.size();
    }
    if (rules_->complaints.size() >= kMostComplaints) return;
    std::string text = Joined({kRulesFile, ", line ", std::to_string(number_), ": "});
    for (const char c : line.substr(0, 80)) text += c >= ' ' && c < 127 ? c : '?';
    rules_->complaints.push_back(text + ": not understood; " + why);
  }

  std::string_view passwd_;
  Rules* rules_;
  int number_ = 0;
};

// 1, true, yes and on are one value; values without an order are words.
std::string_view Canonical(std::string_view value) {
  for (const std::string_view on : {"1", "true", "yes"})
    if (Same(value, on)) return "on";
  for (const std::string_view off : {"0", "false", "no"})
    if (Same(value, off)) return "off";
  return value;
}

bool Banned(const Rules& rules, std::string_view name, std::string_view value) {
  std::string small;
  const auto matches = [&](const Rule& rule) {
    std::string pattern;
    for (const char c : Canonical(rule.value)) pattern += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return MatchesPattern(pattern, small);
  };
  for (const Rule& rule : rules.bans) {
    if (rule.name != name || rule.value.empty()) continue;
    // Also where it is one of a list: sync,buffers.
    for (std::string_view rest = value; !rest.empty();) {
      small.clear();
      for (const char c : Canonical(TakeElement(&rest))) small += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      if (matches(rule)) return true;
    }
  }
  return false;
}

bool BannedAltogether(const Rules& rules, std::string_view name) {
  return std::any_of(rules.bans.begin(), rules.bans.end(),
                     [&](const Rule& rule) { return rule.name == name && rule.value.empty(); });
}

bool Below(std::string_view root, std::string_view path) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root != "/" && (!path.starts_with(root) || (path.size() > root.size() && path[root.size()] != '/'))) return false;
  return path.starts_with('/') && path.find("/../") == std::string_view::npos && !path.ends_with("/..");
}

// Below any of its roots, or it has none.
bool WhereItMayBe(const Rules& rules, std::string_view name, std::string_view path) {
  bool any = false;
  for (const Rule& root : rules.roots) {
    if (root.name != name) continue;
    if (Below(root.value, path)) return true;
    any = true;
  }
  return !any;
}

}  // namespace

Rules ParseRules(std::string_view text, std::string_view passwd) {
  Rules rules;
  Parser parser(passwd, &rules);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    parser.Line(line);
  }
  return rules;
}

void Ban(std::string_view name, Rules* rules) {
  if (!BannedAltogether(*rules, name)) rules->bans.push_back({std::string(name), ""});
}

Ruled Within(const Rules& rules, std::string_view name, std::string_view users) {
  const Variable* variable = FindVariable(name);
  const Rule* set = Find(rules.defaults, name);
  const bool closed = BannedAltogether(rules, name);
  Ruled ruled;
  std::string_view own = set ? std::string_view(set->value) : std::string_view();
  if (Banned(rules, name, own)) own = {};
  if (users.empty()) {
    ruled.value = own;
  } else if (closed || Banned(rules, name, users)) {
    ruled.objection = Joined({"forbidden by ", kRulesFile});
    ruled.value = own;
  } else if (!WhereItMayBe(rules, name, users)) {
    ruled.objection = Joined({"not in a folder that ", kRulesFile, " names"});
    ruled.value = own;
  } else if (rules.needs_token_file && name == "NCCLWATCH_TOKEN") {
    ruled.objection = Joined({kRulesFile, " wants the secret in a file (NCCLWATCH_TOKEN_FILE)"});
  } else {
    ruled.value = users;
  }
  if (ruled.value.empty() && variable && (closed || Banned(rules, name, variable->fallback)))
    ruled.value = variable->least;
  return ruled;
}

}  // namespace ncclwatch::settings
