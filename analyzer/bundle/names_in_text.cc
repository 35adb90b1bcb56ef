#include "analyzer/bundle/names_in_text.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <memory>

namespace ncclwatch::analyzer {
namespace {

// %H: a host's name, %U: a user's, %N: several hosts, as node[01-16,20] or "a:8,b:8".
struct Place {
  std::string_view pattern;
  bool certain;  // else only what looks like a name of a machine: it has a digit, a `-` or a `.`
};

constexpr Place kHosts[] = {
    {R"((?:^|[\s\]>])%H:\d+:\d+ (?:\[\d+\] )?NCCL)", true},
    {R"(\[%H:\d+:\d+:\d+\])", true},                                                         // UCX
    {R"(\[%H:\d+\] (?:\*\*\*|\[ ?\d+\]|Signal|mca_|[A-Z]+ ERROR|\d+ more process))", true},  // Open MPI
    {R"((?:^|>)[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? %H (?:kernel|systemd|[\w./@-]+\[\d+\]):)", true},
    {R"(^\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) %H (?:kernel|systemd|[\w./@-]+\[\d+\]):)", true},
    {R"(srun: error: %H: task)", true},
    {R"(srun: launching \S+ on host %H)", true},
    {R"(\*\*\* (?:JOB|STEP) \S+ ON %H CANCELLED)", true},
    {R"(Node failure on %H)", true},
    {R"(RUNNING AT %H)", true},
    {R"(\bon (?:node|host|machine) %H\b)", false},
    {R"(\bjob \d+ on %H\b)", false},
    {R"(connect(?:ion|ing|ed)? to (?:host )?\[?%H\]?(?::| port |, )\d+)", false},
    {R"(\[c10d\].*\(%H, \d+\))", true},
    {R"(remote peer %H<\d+>)", true},
    {R"((?i)resolve host(?:name)? ['"]?%H)", true},
    {R"((?i)\b(?:local|remote|peer) host(?:name)?: +%H)", true},
    {R"(^\s*(?:Node|node|hostname) *: +%H\s*$)", true},
    {R"(^\s*host *: +%H)", true},  // torchrun
    {R"((?i)\bhostname\\?["']?[=:] ?\\?["']?%H)", true},
    {R"((?i)\b(?:host|node|nodename|instance)\\?["']?[=:] ?\\?["']?%H)", false},
    {R"(\b(?:MASTER_ADDR|HOSTNAME|HOST|NODE_NAME|SLURMD_NODENAME|SLURM_TOPOLOGY_ADDR|SLURM_SUBMIT_HOST)\\?["']?[=:] ?\\?["']?%H)",
     true},
    {R"(--(?:rdzv[-_]endpoint|master[-_]addr)[= ]["']?%H)", true},
    {R"(\b[a-z_][\w-]*@%H:[~/]\S*[$#] )", true},
};

constexpr std::string_view kLists[] = {
    R"(\b(?:SLURM_(?:JOB_|STEP_)?NODELIST|(?:Req)?NodeList|BatchHost|nodelist)\\?["']?[=:] ?\\?["']?%N)",
    R"(--(?:nodelist|hosts?|H)[= ]["']?%N)",
};

constexpr std::string_view kUsers[] = {
    R"(/(?:home|Users|users)/%U\b)",
    R"(\b(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER|SUDO_USER)\\?["']?[=:] ?\\?["']?%U)",
    R"(\buid=\d+\(%U\))",
    R"(\b%U@[A-Za-z0-9.-]+:[~/]\S*[$#] )",
};

std::string Pattern(std::string_view pattern) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kPieces = {{
      {"%H", R"(([A-Za-z0-9][A-Za-z0-9.-]+))"},
      {"%U", R"(([A-Za-z_][\w.-]+))"},
      {"%N", R"(([A-Za-z0-9][A-Za-z0-9.,:\[\]-]+))"},
  }};
  std::string whole(pattern);
  for (const auto& [sign, expression] : kPieces)
    if (const std::size_t at = whole.find(sign); at != std::string::npos) whole.replace(at, sign.size(), expression);
  return whole;
}

struct Places {
  Places() : set({}, RE2::UNANCHORED) {
    for (const Place& place : kHosts) Add(place.pattern);
    for (const std::string_view pattern : kLists) Add(pattern);
    for (const std::string_view pattern : kUsers) Add(pattern);
    set.Compile();
  }
  void Add(std::string_view pattern) {
    patterns.push_back(std::make_unique<RE2>(Pattern(pattern)));
    set.Add(Pattern(pattern), nullptr);
  }
  RE2::Set set;
  std::vector<std::unique_ptr<RE2>> patterns;  // in the order of the three tables
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Small(std::string_view word) {
  std::string small(word);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

// What stands in such places and is no name.
constexpr std::string_view kNoHosts[] = {"localhost", "none", "null", "true", "false", "unknown",  "default",
                                         "auto",      "any",  "all",  "the",  "this",  "self",     "cpu",
                                         "gpu",       "cuda", "host", "node", "rank",  "hostname", "address",
                                         "memory",    "head", "env",  "str",  "int"};
constexpr std::string_view kNoUsers[] = {"root",   "user",    "users", "home",   "admin",  "data",   "shared",
                                         "public", "work",    "app",   "ubuntu", "debian", "centos", "ec2-user",
                                         "runner", "jenkins", "conda", "model",  "models", "train"};

// "gpu-x8" and "a.b"; not "python", "12", "main.py" or "4-5".
bool LooksLikeMachine(std::string_view name) {
  return std::any_of(name.begin(), name.end(), IsLetter) &&
         name.find_first_of("0123456789-.") != std::string_view::npos && !name.ends_with(".py");
}

void AddHost(std::string_view name, bool certain, std::vector<std::string>* hosts) {
  while (!name.empty() && !IsLetter(name.back()) && !IsDigit(name.back())) name.remove_suffix(1);
  constexpr std::size_t kLongest = 253;
  if (name.size() < 2 || name.size() > kLongest || IsOneOf(Small(name), kNoHosts) ||
      !std::any_of(name.begin(), name.end(), IsLetter))
    return;
  if (certain || LooksLikeMachine(name)) hosts->emplace_back(name);
}

// node[01-16,20],login1:8
void AddHosts(std::string_view list, std::vector<std::string>* hosts) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    const char c = at < list.size() ? list[at] : ',';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || (depth > 0 && at < list.size())) continue;
    std::string name(list.substr(begin, at - begin));
    if (const std::size_t range = name.find('['); range != std::string::npos) {
      const std::size_t first = range + 1, end = name.find_first_not_of("0123456789", first);
      name = name.substr(0, range) + name.substr(first, end - first);
    }
    AddHost(name.substr(0, name.find(':')), true, hosts);
    begin = at + 1;
  }
}

constexpr std::string_view kTopLevels[] = {"com",      "org",   "net",         "edu",     "gov",     "mil",
                                           "internal", "lan",   "corp",        "intra",   "hpc",     "ifra",
                                           "arpa",     "local", "localdomain", "cluster", "example", "cloud"};
// Also words of programs: only of a name with a digit or a `-`.
constexpr std::string_view kAlsoWords[] = {"io", "ai", "dev", "app", "info", "int", "biz", "co", "it",
                                           "is", "in", "to",  "id",  "at",   "be",  "no",  "me"};
constexpr std::string_view kCountries[] = {"ar", "au", "br", "ca", "ch", "cn", "cz", "de", "dk", "ee", "es",
                                           "eu", "fi", "fr", "gr", "hk", "hu", "ie", "il", "ir", "jp", "kr",
                                           "lt", "lu", "lv", "mx", "nl", "nz", "pt", "ro", "ru", "sa", "se",
                                           "sg", "si", "sk", "tr", "tw", "ua", "uk", "us", "za"};
constexpr std::string_view kPublic[] = {
    "pytorch.org",       "nvidia.com",     "github.com",     "githubusercontent.com",
    "huggingface.co",    "python.org",     "pypi.org",       "kernel.org",
    "stackoverflow.com", "open-mpi.org",   "mpich.org",      "apache.org",
    "docker.com",        "docker.io",      "nvcr.io",        "ubuntu.com",
    "debian.org",        "redhat.com",     "schedmd.com",    "tensorflow.org",
    "wikipedia.org",     "arxiv.org",      "readthedocs.io", "numpy.org",
    "llvm.org",          "gnu.org",        "sourceware.org", "openucx.org",
    "libfabric.org",     "freedesktop.org"};

}  // namespace

NamesInText FindNames(std::string_view text) {
  static const Places& places = *new Places;
  NamesInText names;
  std::vector<int> found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    found.clear();
    if (!places.set.Match({line.data(), line.size()}, &found)) continue;
    for (const int one : found) {
      re2::StringPiece rest(line.data(), line.size()), name;
      while (RE2::FindAndConsume(&rest, *places.patterns[static_cast<std::size_t>(one)], &name)) {
        const std::string_view word(name.data(), name.size());
        const auto row = static_cast<std::size_t>(one);
        if (row < std::size(kHosts))
          AddHost(word, kHosts[row].certain, &names.hosts);
        else if (row < std::size(kHosts) + std::size(kLists))
          AddHosts(word, &names.hosts);
        else if (word.size() >= 3 && word.size() <= 64 && !IsOneOf(Small(word), kNoUsers))
          names.users.emplace_back(word);
      }
    }
  }
  return names;
}

bool IsPublicSite(std::string_view name) {
  if (name == "example.org") return true;
  return std::any_of(std::begin(kPublic), std::end(kPublic), [&](std::string_view site) {
    return name.ends_with(site) && (name.size() == site.size() || name[name.size() - site.size() - 1] == '.');
  });
}

bool IsHostWithDomain(std::string_view word) {
  const std::size_t first = word.find('.'), last = word.rfind('.');
  if (first == std::string_view::npos || first == 0 || last + 1 == word.size()) return false;
  if (word.find_first_of("_") != std::string_view::npos || word.find("..") != std::string_view::npos) return false;
  const std::string top = Small(word.substr(last + 1));
  const std::string_view host = word.substr(0, first), name = word.substr(0, last);
  const bool numbered = name.find_first_of("0123456789-") != std::string_view::npos;
  if (!std::any_of(name.begin(), name.end(), IsLetter)) return false;
  const bool several = first != last;
  const bool known = IsOneOf(top, kTopLevels) && (several || top != "local" || numbered);
  const bool country = several && IsOneOf(top, kCountries) && (numbered || host == "login" || host == "www");
  const bool word_too = several && numbered && IsOneOf(top, kAlsoWords);
  return (known || country || word_too) && !IsPublicSite(Small(word));
}

std::string_view FamilyOf(std::string_view host) {
  constexpr std::string_view kNoFamilies[] = {
      "gpu", "cuda", "rank",   "step", "epoch", "layer",  "layers", "iter", "task", "stage", "device",
      "dev", "tp",   "pp",     "dp",   "ib",    "eth",    "mlx",    "bond", "cpu",  "proc",  "thread",
      "job", "run",  "worker", "line", "test",  "python", "fp",     "bf",   "int",  "host",  "sm"};
  std::size_t digits = host.size();
  while (digits > 0 && IsDigit(host[digits - 1])) --digits;
  const std::string_view family = host.substr(0, digits);
  std::size_t letters = digits;
  while (letters > 0 && !IsLetter(host[letters - 1])) --letters;
  if (digits == host.size() || letters < 2 || host.find('.') != std::string_view::npos) return {};
  return IsOneOf(Small(host.substr(0, letters)), kNoFamilies) ? std::string_view() : family;
}

}  // namespace ncclwatch::analyzer
