// /etc/ncclwatch.conf: what an administrator allows, over texts.
#include "watchdog/settings/rules.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "watchdog/settings/excluded.h"
#include "watchdog/settings/settings.h"
#include "watchdog/settings/variables.h"

namespace ncclwatch::settings {
namespace {

std::map<std::string, std::string> variables;
std::vector<std::string> asked;
const char* GetVariable(const char* name) {
  asked.emplace_back(name);
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

constexpr char kPasswd[] = "root:x:0:0:root:/root:/bin/sh\nalice:x:1001:100::/home/alice:/bin/sh\nali:x:1002:100:::\n";

struct RulesRead {
  Settings settings;
  std::vector<std::string> complaints;
  bool Says(std::string_view part) const {
    for (const std::string& line : complaints)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
};
RulesRead Under(std::string_view file, std::map<std::string, std::string> users) {
  variables = std::move(users);
  RulesRead read;
  std::vector<Complaint> complaints;
  read.settings = FromEnvironment(GetVariable, ParseRules(file, kPasswd), &complaints);
  for (const Complaint& complaint : complaints) read.complaints.push_back(complaint.text);
  return read;
}

TEST(Rules, ALineNameValueIsADefaultThatUsersChange) {
  constexpr char kFile[] = "# site\nNCCLWATCH_OUT = /scratch/evidence   # shared\n\tNCCLWATCH_RING=1024\r\n";
  const RulesRead silent = Under(kFile, {});
  EXPECT_TRUE(silent.complaints.empty());
  EXPECT_EQ(silent.settings.out, "/scratch/evidence");
  EXPECT_EQ(silent.settings.ring, 1024u);
  EXPECT_EQ(Under(kFile, {{"NCCLWATCH_OUT", "/home/me"}}).settings.out, "/home/me");
}

TEST(Rules, ACommentBeginsAWord) {
  EXPECT_EQ(Under("NCCLWATCH_HOOK=curl http://h/#x\n", {}).settings.hook, "curl http://h/#x");
}

TEST(Rules, OffSwitchesTheMachineOff) {
  EXPECT_FALSE(Under("off\n", {}).settings.on);
  EXPECT_TRUE(Under("off\n", {}).complaints.empty());
  const RulesRead wants = Under("off", {{"NCCLWATCH", "on"}, {"NCCLWATCH_RING", "x"}});
  EXPECT_FALSE(wants.settings.on);
  EXPECT_TRUE(wants.Says("switched off by /etc/ncclwatch.conf"));
  EXPECT_EQ(wants.complaints.size(), 1u);
}

TEST(Rules, OffAsADefaultLetsUsersAskForIt) {
  EXPECT_FALSE(Under("NCCLWATCH=off", {}).settings.on);
  EXPECT_TRUE(Under("NCCLWATCH=off", {{"NCCLWATCH", "on"}}).settings.on);
}

TEST(Rules, WhatARecordingMayTakeHasACeilingAlsoWhereNobodyAskedForOne) {
  EXPECT_EQ(Under("max NCCLWATCH_TRACE_MAX=10G", {}).settings.trace_most_bytes, std::uint64_t{10} << 30);
  EXPECT_EQ(Under("max NCCLWATCH_TRACE_MAX=10G", {{"NCCLWATCH_TRACE_MAX", "1G"}}).settings.trace_most_bytes,
            std::uint64_t{1} << 30);
  EXPECT_EQ(Under("max NCCLWATCH_TRACE_MAX=10G", {{"NCCLWATCH_TRACE_MAX", "11G"}}).settings.trace_most_bytes,
            std::uint64_t{10} << 30);
  EXPECT_EQ(Under("forbid NCCLWATCH_TRACE=full", {{"NCCLWATCH_TRACE", "full"}}).settings.trace, Trace::kRing);
}

TEST(Rules, AForbiddenValueGivesTheDefaultAndIsSaid) {
  const RulesRead read = Under("forbid NCCLWATCH_ON_FAULT=abort", {{"NCCLWATCH_ON_FAULT", "Abort"}});
  EXPECT_EQ(read.settings.on_fault, OnFault::kDump);
  EXPECT_TRUE(read.Says("NCCLWATCH_ON_FAULT=Abort: forbidden by /etc/ncclwatch.conf"));
  EXPECT_EQ(Under("forbid NCCLWATCH_ON_FAULT=abort", {{"NCCLWATCH_ON_FAULT", "report"}}).settings.on_fault,
            OnFault::kReport);
  EXPECT_FALSE(Under("forbid NCCLWATCH_PTRACE=on", {{"NCCLWATCH_PTRACE", "1"}}).settings.ptrace);
  const RulesRead redis = Under("forbid NCCLWATCH_EXCHANGE=redis:*", {{"NCCLWATCH_EXCHANGE", "redis://:pw@h"}});
  EXPECT_EQ(redis.settings.exchange, "auto");
  EXPECT_FALSE(redis.Says("pw"));
  EXPECT_FALSE(
      Under("forbid NCCLWATCH_MPI_CHECKS=sync", {{"NCCLWATCH_MPI_CHECKS", "buffers,sync"}}).settings.mpi_checks.sync);
}

TEST(Rules, AForbiddenVariableIsTheAdministrators) {
  const RulesRead hook = Under("forbid NCCLWATCH_HOOK\nforbid NCCLWATCH_NCCL\nNCCLWATCH_NCCL=/opt/nccl.so\n",
                               {{"NCCLWATCH_HOOK", "rm"}, {"NCCLWATCH_NCCL", "/tmp/mine.so"}});
  EXPECT_TRUE(hook.settings.hook.empty());
  EXPECT_EQ(hook.settings.nccl, "/opt/nccl.so");
  EXPECT_EQ(hook.complaints.size(), 2u);
  EXPECT_EQ(Under("forbid NCCLWATCH_EXCHANGE", {}).settings.exchange, "off");
  EXPECT_EQ(Under("forbid NCCLWATCH_EXCHANGE", {{"NCCLWATCH_EXCHANGE", "tcp://h:1"}}).settings.exchange, "off");
  EXPECT_EQ(Under("forbid NCCLWATCH_ON_FAULT", {{"NCCLWATCH_ON_FAULT", "abort"}}).settings.on_fault, OnFault::kReport);
}

TEST(Rules, CeilingsLowerWhatUsersAndDefaultsSay) {
  const RulesRead read = Under(
      "max NCCLWATCH_RING=4096\nmax NCCLWATCH_ON_FAULT=dump\nmax NCCLWATCH_KEEP=1d,1G\n"
      "max NCCLWATCH_HOOK_TIMEOUT=10\nmax NCCLWATCH_TIMEOUT=600",
      {{"NCCLWATCH_RING", "100000"},
       {"NCCLWATCH_ON_FAULT", "abort"},
       {"NCCLWATCH_KEEP", "all"},
       {"NCCLWATCH_TIMEOUT", "1200"}});
  EXPECT_EQ(read.settings.ring, 4096u);
  EXPECT_EQ(read.settings.on_fault, OnFault::kDump);
  EXPECT_FALSE(read.settings.keep.all);
  EXPECT_EQ(read.settings.keep.age_s, 86400);
  EXPECT_EQ(read.settings.timeout_s, 600);
  EXPECT_EQ(read.settings.hook_timeout_s, 10);
  EXPECT_EQ(read.complaints.size(), 4u);
  EXPECT_TRUE(read.Says("NCCLWATCH_RING=100000: more than /etc/ncclwatch.conf allows, 4096 is used"));
  EXPECT_EQ(Under("max NCCLWATCH_RING=4096", {{"NCCLWATCH_RING", "1024"}}).settings.ring, 1024u);
}

TEST(Rules, PathsLieBelowTheirRoot) {
  constexpr char kFile[] = "root NCCLWATCH_OUT=/scratch/\n";
  EXPECT_EQ(Under(kFile, {{"NCCLWATCH_OUT", "/scratch/me"}}).settings.out, "/scratch/me");
  for (const char* outside : {"/scratchy", "/scratch/../etc", "/scratch/x/..", "scratch/me", "/home/me"}) {
    const RulesRead read = Under(kFile, {{"NCCLWATCH_OUT", outside}});
    EXPECT_TRUE(read.settings.out.empty()) << outside;
    EXPECT_EQ(read.complaints.size(), 1u) << outside;
  }
}

TEST(Rules, ATokenFileMayBeRequired) {
  constexpr char kFile[] = "require NCCLWATCH_TOKEN_FILE\n";
  const RulesRead without = Under(kFile, {{"NCCLWATCH_TOKEN", "hunter2"}});
  EXPECT_EQ(without.settings.exchange, "off");
  EXPECT_FALSE(without.settings.why_no_exchange.empty());
  EXPECT_TRUE(without.settings.token.empty());
  EXPECT_FALSE(without.Says("hunter2"));
  EXPECT_EQ(Under(kFile, {{"NCCLWATCH_TOKEN_FILE", "/home/me/t"}}).settings.exchange, "auto");
}

TEST(Rules, ProgramsAndUsersAreLeftAlone) {
  const RulesRead read = Under("exclude julia, gmx*\nexclude Xorg", {{"NCCLWATCH_EXCLUDE", "mine"}});
  EXPECT_EQ(read.settings.exclude, "mine,julia,gmx*,Xorg");
  EXPECT_EQ(ParseRules("exclude-user alice, 7", kPasswd).users, (std::vector<std::string>{"1001", "7"}));
  EXPECT_EQ(ParseRules("exclude-user ali", kPasswd).users, (std::vector<std::string>{"1002"}));
  const Rules unknown = ParseRules("exclude-user bob", kPasswd);
  ASSERT_EQ(unknown.complaints.size(), 1u);
  EXPECT_NE(unknown.complaints[0].find("bob is not in /etc/passwd"), std::string::npos);
  EXPECT_FALSE(Under("exclude-user " + std::to_string(getuid()), {{"NCCLWATCH_RING", "x"}}).settings.on);
  EXPECT_TRUE(Under("exclude-user " + std::to_string(getuid() + 1), {}).settings.on);
}

class BrokenLine : public ::testing::TestWithParam<const char*> {};

TEST_P(BrokenLine, IsNamedOnceAndNothingOfThatVariableIsTakenFromUsers) {
  const RulesRead read = Under(GetParam(), {{"NCCLWATCH_ON_FAULT", "abort"}});
  EXPECT_EQ(read.settings.on_fault, OnFault::kReport) << GetParam();
  EXPECT_TRUE(read.Says("/etc/ncclwatch.conf")) << GetParam();
  EXPECT_EQ(read.complaints.size(), 2u) << GetParam();  // the line, and what became of the user's value
}

INSTANTIATE_TEST_SUITE_P(Rules, BrokenLine,
                         ::testing::Values("forbd NCCLWATCH_ON_FAULT=abort", "forbid NCCLWATCH_ON_FALT=abort",
                                           "forbid NCCLWATCH_ON_FAULT=abrt", "max NCCLWATCH_ON_FAULT",
                                           "max NCCLWATCH_ON_FAULT=lots", "forbid NCCLWATCH_ON_FAULT abort",
                                           "root NCCLWATCH_ON_FAULT=/x", "NCCLWATCH_ON_FAULT report"));

TEST(Rules, OtherBrokenLinesAreNamedAndChangeNothing) {
  for (const char* line : {"of", "exclude", "max NCCLWATCH_HOOK=x", "NCCLWATCH_DIR=/x", "NCCLWATCH_TOKEN=x", "\x01\xff",
                           "forbid NCCLWATCH_DIR", "=", "forbid"}) {
    const RulesRead read = Under(line, {});
    EXPECT_EQ(read.complaints.size(), 1u) << line;
    EXPECT_TRUE(read.settings.on) << line;
    EXPECT_EQ(read.complaints.at(0).find('\x01'), std::string::npos);
  }
}

TEST(Rules, TheExampleForAdministratorsIsUnderstood) {
  std::ifstream page(SECURITY_PAGE);
  std::stringstream text;
  text << page.rdbuf();
  const std::string whole = text.str();
  const std::size_t begin = whole.find("\n```text\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string example = whole.substr(begin + 9, whole.find("\n```\n", begin + 9) - begin - 9);
  variables = {};
  std::vector<Complaint> complaints;
  const Settings settings =
      FromEnvironment(GetVariable, ParseRules(example, "backup:x:34:34::/:/bin/sh\n"), &complaints);
  EXPECT_TRUE(complaints.empty()) << complaints.front().text;
  EXPECT_EQ(settings.out, "/scratch/ncclwatch");
  EXPECT_EQ(settings.hook_timeout_s, 30);
  EXPECT_EQ(settings.keep.age_s, 3 * 86400);
  EXPECT_EQ(settings.exclude, "julia,*.julia,gmx*,/opt/vendor/bin/*");
  EXPECT_EQ(settings.exchange, "off");  // no token file
}

TEST(Excluded, AProgramIsKnownByItsFileItsFirstWordAndItsScript) {
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(NamesOfProgram("/usr/bin/ls (deleted)", "busybox\0-l\0"sv),
            (std::vector<std::string>{"/usr/bin/ls", "busybox"}));
  const auto script = [](std::string_view words) { return NamesOfProgram("/usr/bin/python3.11", words).back(); };
  EXPECT_EQ(script("python\0train.py\0--x\0"sv), "train.py");
  EXPECT_EQ(script("python\0-u\0-X\0dev\0-Wignore\0/a/train.py\0"sv), "/a/train.py");
  EXPECT_EQ(script("python\0-um\0torch.distributed.run\0t.py\0"sv), "torch.distributed.run");
  EXPECT_EQ(script("python\0-c\0import x\0"sv), "python");
  EXPECT_EQ(script(""), "/usr/bin/python3.11");
}

TEST(Excluded, NamesAreComparedWhole) {
  const std::vector<std::string> names{"/opt/app/bin/gmx_mpi", "gmx"};
  for (const char* list : {"gmx", "x,gmx_*", " gmx_mpi ", "/opt/app/*", "*"}) EXPECT_TRUE(IsAmong(list, names)) << list;
  for (const char* list : {"", ",", "gm", "mpi", "opt", "/opt/app/bin", "GMX"})
    EXPECT_FALSE(IsAmong(list, names)) << list;
  EXPECT_FALSE(IsExcluded(""));
  EXPECT_TRUE(IsExcluded("unit_*"));
}

TEST(Variables, AllThatSettingsAskForAreInTheTable) {
  asked.clear();
  Under("", {});
  for (const std::string& name : asked) EXPECT_TRUE(FindVariable(name)) << name;
  // And every field is read from one that is asked for.
  const RulesRead read =
      Under("", {{"NCCLWATCH_BIND", ":7000"}, {"NCCLWATCH_REDACT", "r"}, {"NCCLWATCH_TOKEN_FILE", "t"}});
  EXPECT_EQ(read.settings.bind + read.settings.redact + read.settings.token_file, ":7000rt");
}

TEST(Variables, AMisspeltNameIsNamedWithTheNearestRightOne) {
  const char* const entries[] = {"PATH=/bin",
                                 "NCCLWATCH_TIMEOT=5",
                                 "NCCLWATCH_ONFAULT=abort",
                                 "NCCLWATCH_RING=1",
                                 "NCCLWACTH_OUT=/x",
                                 "NCCL_WATCH=off",
                                 "NCCLWATCH_TEST_X=1",
                                 "NCCL_DEBUG=INFO",
                                 "NCCLWATCH_COLOUR_OF_THE_SKY=1",
                                 nullptr};
  const std::vector<std::string> lines = Misspelt(entries);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "NCCLWATCH_TIMEOT: there is no such variable; is NCCLWATCH_TIMEOUT meant?");
  EXPECT_EQ(lines[1], "NCCLWATCH_ONFAULT: there is no such variable; is NCCLWATCH_ON_FAULT meant?");
  EXPECT_EQ(lines[2], "NCCLWACTH_OUT: there is no such variable; is NCCLWATCH_OUT meant?");
  EXPECT_EQ(lines[3], "NCCL_WATCH: there is no such variable; is NCCLWATCH meant?");
  EXPECT_EQ(lines[4], "NCCLWATCH_COLOUR_OF_THE_SKY: there is no such variable");
}

}  // namespace
}  // namespace ncclwatch::settings
